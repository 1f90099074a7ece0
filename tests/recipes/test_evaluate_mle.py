import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "recipes" / "evaluate_mle.py")


def evaluate(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", [SCRIPT, *args])
    runpy.run_path(SCRIPT, run_name="__main__")


def test_policies_are_compared(tiny_model, tmp_path, monkeypatch, capsys):
    """A random policy writes no program, so the table is all that there is to see."""
    options = ["--competition", "wine", "--output_dir", str(tmp_path / "out"), "--num_samples", "3"]
    options += ["--max_completion_length", "8", "--names", "before RL", "after RL"]
    evaluate(monkeypatch, "--policies", tiny_model, tiny_model, *options)
    out = capsys.readouterr().out
    assert "wine: 3 sampled programs" in out
    assert max(map(len, out.splitlines())) <= 200
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["policies"]["after RL"]["valid_rate"] == 0.0
    rows = [json.loads(line) for line in (tmp_path / "out" / "after RL.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows] == [-10.0] * 3


def test_improving_is_reported_by_the_score_that_chose(tiny_model, tmp_path, monkeypatch, capsys):
    options = ["--competition", "wine", "--output_dir", str(tmp_path / "out"), "--num_samples", "3"]
    options += ["--max_completion_length", "8", "--names", "random", "--improve", "true"]
    evaluate(monkeypatch, "--policies", tiny_model, *options)
    out = capsys.readouterr().out
    assert "each valid program improved once" in out
    assert "validation" in out
    result = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]["random"]
    assert result["num_executed"] == result["improvement"]["num_executed"]
    assert [row["chosen_by"] for row in result["improvement"]["kept"]] == ["validation", "test"]
    assert len((tmp_path / "out" / "random-improved.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--competition", "wime"], "did you mean 'wine'?"),
        (["--num_samples", "0"], "--num_samples must be at least 1"),
        (["--names", "one", "two"], "2 names for 1 policies"),
        (["--policies", "no/such/model"], "no/such/model"),
        (["--output_dir", "/proc/out"], "/proc/out"),
        (["--no_such_option", "1"], "no_such_option"),
    ],
)
def test_bad_input_ends_in_one_line(tiny_model, tmp_path, monkeypatch, capsys, more, message):
    options = {"--policies": [tiny_model], "--competition": ["wine"], "--output_dir": [str(tmp_path / "out")]}
    options[more[0]] = more[1:]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SystemExit) as ended:
        evaluate(monkeypatch, *(word for name, values in options.items() for word in (name, *values)))
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("evaluate_mle.py: error: ")
    assert message in last
    assert not (tmp_path / "out").exists()


def test_bad_input_of_the_starter(tmp_path):
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "trl_mle.starter",
            "--competitions",
            "digit",
            "--output_dir",
            str(tmp_path / "starter"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith("error: competitions: the starter's grammar does not cover 'digit'")
    assert "did you mean 'digits'?" in run.stderr
    assert not (tmp_path / "starter").exists()
