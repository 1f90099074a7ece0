import itertools
import json
import re
import runpy
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from support.openai_server import OpenAIServer
from support.prepared_folders import write_task

from trl_mle.competitions import load_competition
from trl_mle.evaluation.evaluate import EvaluationArguments, run
from trl_mle.files import alone_in


ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "recipes" / "evaluate_mle.py")


def evaluate(monkeypatch, *args, code=0):
    """Runs the recipe in this process."""
    monkeypatch.setattr(sys, "argv", [SCRIPT, *map(str, args)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(SCRIPT, run_name="__main__")
    assert ended.value.code == code


@pytest.fixture
def one_sandbox(monkeypatch, executor):
    """All evaluations have the same, because it takes seconds to start."""
    monkeypatch.setattr("trl_mle.evaluation.evaluate.make_executor", lambda args: nullcontext(executor))


def results(folder):
    return {(row["competition"], row["policy"]): row for row in json.loads((folder / "results.json").read_text())["rows"]}  # fmt: skip


def test_policies_are_compared(tiny_model, tmp_path, monkeypatch, capsys, one_sandbox):
    """A random policy writes no program, so that the table is the only result."""
    policies = [tmp_path / "starter", tmp_path / "policy"]
    for policy in policies:
        shutil.copytree(tiny_model, policy)
    (policies[1] / "arguments.json").write_text('{"holdout": 0.5, "competitions": ["wine"]}')
    options = ["--competition", "wine", "--output_dir", tmp_path / "out", "--num_samples", "3"]
    options += ["--max_completion_length", "8", "--names", "before RL", "after RL"]
    evaluate(monkeypatch, "--policies", *policies, *options)
    out, err = capsys.readouterr()
    assert err.count("other rows were held out of its training (--holdout 0.5)") == 1
    assert "wine, accuracy ↑: 3 sampled programs" in out
    said = " ".join(out.split())
    reason = r"[123] of 3: (SyntaxError: .*?|no code in the completion)"
    assert re.search(f"before RL: none is valid; {reason}; they reach 0.0 of 7 milestones", said)
    assert said.count("take a larger model") == 2
    assert max(map(len, out.splitlines())) <= 200
    assert results(tmp_path / "out")["wine", "after RL"]["valid_rate"] == 0.0
    rows = [json.loads(line) for line in (tmp_path / "out" / "after-RL.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows if "reward" in row] == [-10.0] * 3
    tables = (tmp_path / "out" / "results.md").read_text()
    assert f"- after RL: `{policies[1]}`\n- 3 programs each, seed 1000000, no rows held out" in tables
    assert "## Best of 3 programs" in tables

    written = (tmp_path / "out" / "results.json").read_text()
    evaluate(monkeypatch, "--policies", *policies, *options)  # nothing is left to do
    assert (tmp_path / "out" / "results.json").read_text() == written


PROGRAM = """\
```python
import shutil
from glob import glob
print({number})
shutil.copy(glob("input/sample*.csv")[0], "submission.csv")
```"""


@pytest.fixture
def server():
    """A model that answers each time with another program, for any competition."""
    numbers = itertools.count()
    server = OpenAIServer(lambda prompt, max_tokens: (PROGRAM.format(number=next(numbers)), 40))
    yield server
    server.kill()


@pytest.mark.slow
def test_an_endpoint_on_two_competitions(server, tmp_path, monkeypatch, capsys):
    """One command evaluates both competitions, and keeps the best submissions."""
    names = ["spooky-author-identification", "random-acts-of-pizza"]
    for name in names:
        mirror = load_competition(f"mirror:{name}?rows=60").public_dir.parent
        shutil.copytree(mirror, tmp_path / "data" / name / "prepared")
    evaluate(
        monkeypatch, "--policies", server.url, "--names", "alone",
        "--competitions", *names, "--data_dir", tmp_path / "data", "--output_dir", tmp_path / "out",
        "--num_samples", 2,
    )  # fmt: skip
    found = results(tmp_path / "out")
    assert list(found) == [(name, "alone") for name in names]
    for (name, _), row in found.items():
        assert (row["num_samples"], row["num_valid"], row["num_untrained"]) == (2, 2, 2)
        assert [point["k"] for point in row["best_of_k"]] == [1, 2]
        path = tmp_path / "out" / "best_solutions" / "alone" / name / "submission.csv"
        assert load_competition(name, tmp_path / "data").grade(path).value == row["best_score"]
    assert len(server.requests) == 4
    assert "medal" in (tmp_path / "out" / "results.md").read_text()
    out = capsys.readouterr().out
    assert [out.count(f"{name}, ") for name in names] == [1, 1]


def test_half_of_the_rows_are_held_out(server, tmp_path, monkeypatch, capsys, one_sandbox):
    """Files with another share are refused."""
    options = ["--policies", server.url, "--names", "x", "--competitions", "wine", "--num_samples", 2]
    options += ["--output_dir", tmp_path]
    evaluate(monkeypatch, *options, "--holdout", 0.5)
    score = load_competition("wine", holdout=0.5).grade(load_competition("wine").sample_submission)
    row = results(tmp_path)["wine", "x"]
    assert (row["best_score"], row["on_all_rows"]["best_score"]) == (score.held_out, score.full)
    out = " ".join(capsys.readouterr().out.split())
    assert "scores on held-out rows, the best chosen on validation rows" in out
    assert f"best program: accuracy {score.held_out:.4f} on held-out rows ─" in out
    evaluate(monkeypatch, *options, code=2)
    assert "was made with other settings (holdout)" in capsys.readouterr().err


def test_another_table_of_the_same_name_is_not_reported_with_the_results_of_the_first(server, tmp_path, one_sandbox):
    options = {"policies": [server.url], "names": ["x"], "num_samples": 1, "output_dir": str(tmp_path / "out")}
    tables = [write_task(tmp_path / name / "flats", "flats") for name in ("A", "B")]
    run(EvaluationArguments(competitions=[str(tables[0])], **options))
    (tables[1] / "private" / "test.csv").write_text("id,y\n3,b\n4,b\n")
    with pytest.raises(ValueError, match=r"was made with other settings \(content of flats\)"):
        run(EvaluationArguments(competitions=[str(tables[1])], **options))
    run(EvaluationArguments(competitions=[str(tables[0]), "wine"], **options))  # another may be added


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--competition", "wime"], "did you mean 'wine'?"),
        (["--seed", "4294967296"], "--seed must be from 0 to 4294967295"),
        (["--names", "one", "two"], "--names: 2 names for 1 policies: give one each"),
        (["--names", "."], "--names must be file names that differ: ."),
        (["--policies", "no/such/model"], "cannot load the policy no/such/model, which is not a local folder"),
        (["--policies", "http://localhost:1/v1"], "the endpoint http://localhost:1/v1 does not answer"),
        (["--output_dir", SCRIPT], f"{SCRIPT} is a file: name a folder"),
    ],
)
def test_bad_input_ends_in_one_line(tiny_model, tmp_path, monkeypatch, capsys, more, message):
    options = {"--policies": [tiny_model], "--competition": ["wine"], "--output_dir": [str(tmp_path / "out")]}
    options[more[0]] = more[1:]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    arguments = [word for name, values in options.items() for word in (name, *values)]
    evaluate(monkeypatch, *arguments, code=2)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("trl-mle: error: ")
    assert message in last
    assert not (tmp_path / "out").exists()


def test_two_evaluations_do_not_write_to_one_folder(tiny_model, tmp_path):
    args = EvaluationArguments(competitions=["wine"], output_dir=str(tmp_path), policies=[tiny_model], names=["x"])
    with alone_in(tmp_path), pytest.raises(BlockingIOError, match=f"^another process is writing to {tmp_path}: name"):
        run(args)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
