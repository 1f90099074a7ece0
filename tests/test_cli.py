import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy
import pytest
from support.fake_executor import ScriptedExecutor

from trl_mle import cli
from trl_mle.competitions import list_competitions, load_competition
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome
from trl_mle.execution.program import OPTIONAL
from trl_mle.prompts import Ideas, estimate_tokens, scratch_prompt


@pytest.fixture
def trl_mle(command, capsys):
    """Runs a command in this process; returns its exit code, output and error."""

    def run(*arguments):
        code, written = command(*arguments), capsys.readouterr()
        if arguments[0] in ("competitions", "grade", "new", "run") and "--json" not in arguments:
            assert max(map(len, written.out.splitlines()), default=0) <= 80
        return code, *written

    return run


def test_doctor_tells_which_tier_works(trl_mle):
    code, out, _ = trl_mle("doctor")
    assert code == 0
    assert "\nprograms are isolated by bubblewrap, " in out
    assert f"numpy {numpy.__version__}, pandas " in out


def test_doctor_tells_what_is_missing(trl_mle, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: 0)
    code, out, _ = trl_mle("doctor")
    assert code == 1
    for part in ("bubblewrap is missing", "the kernel has no Landlock", "apt-get install bubblewrap"):
        assert part in " ".join(out.split())


def test_doctor_does_not_know_what_a_slow_machine_can_do(trl_mle, monkeypatch):
    lost = ExecutionResult(Outcome.INFRASTRUCTURE, "ReportLost: no report within 90 s")
    monkeypatch.setattr(LocalExecutor, "check", lambda self, competition: None)
    monkeypatch.setattr(LocalExecutor, "run_many", lambda self, programs: [lost for _ in programs])
    code, out, _ = trl_mle("doctor")
    assert code == 2
    assert re.search(r"bubblewrap +│ unknown", out)


def test_an_error_of_ours_is_no_answer(trl_mle, monkeypatch):
    monkeypatch.setattr(LocalExecutor, "check", lambda *args: 1 / 0)
    assert trl_mle("doctor")[0] == 70  # 1 is the answer that no tier works


PROGRAM = """\
import pandas as pd
from sklearn.dummy import DummyClassifier
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = DummyClassifier()
model.fit(train.drop(columns=["id", "cultivar"]), train["cultivar"])
pred = model.predict(test.drop(columns=["id"]))
sub = test[["id"]].assign(cultivar=pred)
sub.to_csv("submission.csv", index=False)
print("~~~ [bold] ```")
"""


@pytest.mark.parametrize("words", [["recipes"], ["grade", "wine", "x.csv"]])
def test_a_closed_pipe_is_no_error(tmp_path, wine, words):
    """As in `trl-mle recipes | grep -q starter`; output may wait until the end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = str(Path(cli.__file__).parents[1])
    shutil.copy(wine.sample_submission, tmp_path / "x.csv")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "trl_mle.cli", *words]
    run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    os.close(writing)
    assert (run.returncode, run.stderr) == (0, "")


def test_help_waits_for_no_library():
    code = "import sys; from trl_mle.cli import make_parser; make_parser(); print({'pandas', 'torch', 'trl'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_competitions(trl_mle, tmp_path):
    prepared = tmp_path / "spooky-author-identification" / "prepared"
    shutil.copytree(load_competition("mirror:spooky-author-identification?rows=60").public_dir.parent, prepared)
    code, out, _ = trl_mle("competitions", "--json", "--data_dir", tmp_path)
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == list_competitions()
    wine = {"id": "wine", "status": "local", "metric": "accuracy", "higher_is_better": True, "test_rows": 53}
    assert wine.items() <= rows["wine"].items()
    assert rows["leaf-classification"]["status"] == "missing"
    assert rows["mirror:leaf-classification"]["status"] == "mirror"
    code, out, _ = trl_mle("competitions", "--data_dir", tmp_path)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "digits log loss ↓ 539" in lines
    assert "spooky-author-identification log loss ↓ 15" in lines
    assert "learning-agency-lab-automated-essay-scoring-2 quadratic weighted kappa ↑ -" in lines  # not wrapped


def test_grade(trl_mle, wine):
    score = wine.grade(wine.sample_submission).value
    code, out, err = trl_mle("grade", "wine", wine.sample_submission)
    assert (code, err) == (0, "")
    assert f"{score:.5f} (accuracy ↑)" in out
    code, out, _ = trl_mle("grade", "wine", wine.public_dir / "test.csv")
    assert (code, "the submission lacks the columns 'cultivar'" in out) == (1, True)
    code, out, _ = trl_mle("grade", "wine", wine.public_dir / "test.csv", "--json")
    expected = {"competition": "wine", "valid": False, "score": None, "medal": None, "thresholds": None}
    assert (code, expected.items() <= json.loads(out).items()) == (1, True)


def test_run_shows_its_result_in_any_encoding(tmp_path):
    (tmp_path / "solution.py").write_text(PROGRAM.replace("~~~", "é Δ 💾"), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "trl_mle.cli", "run", "wine", tmp_path / "solution.py"],
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1]), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
    )
    out = run.stdout.decode("latin-1")
    assert run.returncode == 0, run.stderr
    for part in ("outcome      valid submission", "milestones   7 of 7", "é \\u0394 \\U0001f4be [bold]"):
        assert part in out


@pytest.fixture
def one_sandbox(monkeypatch, executor):
    """A sandbox for several commands, because it takes seconds to start."""
    monkeypatch.setattr("trl_mle.scripts.grade.make_executor", lambda args: nullcontext(executor))


def test_run(trl_mle, wine, tmp_path, one_sandbox):
    """It says why a program fails, and scores held-out rows."""
    solution = tmp_path / "solution.py"
    solution.write_text(PROGRAM.replace("input/test.csv", "input/tests.csv"))
    code, out, _ = trl_mle("run", "wine", solution)
    assert code == 1
    for part in ("outcome      error", "FileNotFoundError", "milestones   2 of 7", "not reached: test_data"):
        assert part in out
    report = json.loads(trl_mle("run", "wine", solution, "--json")[1])
    assert (report["outcome"], report["valid"], report["score"], report["reward"]) == ("error", False, None, -9.8)
    solution = solution.with_suffix(".ipynb")
    cells = ["%matplotlib inline\nimport shutil", 'shutil.copy("input/sample_submission.csv", "submission.csv")']
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    solution.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "A guess"}, *code]}))
    score = load_competition("wine", holdout=0.5).grade(wine.sample_submission)
    expected = {"score": score.value, "held_out": score.held_out, "full": score.full}
    assert len(set(expected.values())) == 3
    for command in (("grade", "wine", wine.sample_submission), ("run", "wine", solution)):
        report = json.loads(trl_mle(*command, "--holdout", "0.5", "--json")[1])
        assert expected.items() <= report.items()
    code, out, _ = trl_mle("run", "wine", solution, "--output", tmp_path / "kept.csv")
    assert (code, out.count(f"{score.full:.5f}")) == (0, 2)  # beside itself, as the constant guess
    assert (tmp_path / "kept.csv").read_bytes() == wine.sample_submission.read_bytes()


def test_a_failure_of_ours_does_not_make_a_program_invalid(trl_mle, monkeypatch):
    executor = ScriptedExecutor(*[ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")] * 2)
    monkeypatch.setattr("trl_mle.scripts.grade.make_executor", lambda args: nullcontext(executor))
    assert trl_mle("run", "wine", __file__)[0] == 2


def test_prompt(trl_mle, wine):
    with LocalExecutor(1, 30, 2048) as executor:  # as in training
        asked, begun = scratch_prompt(wine, executor.limits, begin_program=True)
        (plan,) = scratch_prompt(wine, executor.limits)
    limits = "wine", "--program_timeout_s", 30, "--program_memory_mb", 2048
    code, out, err = trl_mle("prompt", *limits)
    tokens = estimate_tokens(asked["content"]) + estimate_tokens(begun["content"])
    assert (code, out) == (0, f"{asked['content']}\n\nThe answer begins with:\n\n{begun['content']}\n")
    assert str(tokens) in err
    assert json.loads(trl_mle("prompt", *limits, "--json")[1])["prompt"] == [asked, begun]
    assert trl_mle("prompt", *limits, "--plan")[1] == plan["content"] + "\n"
    ideas = [idea.name for idea in Ideas("default", packages=OPTIONAL).of(wine)]
    assert trl_mle("ideas", "wine")[1].splitlines() == json.loads(trl_mle("ideas", "wine", "--json")[1]) == ideas


def test_new_prints_what_it_read(trl_mle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{1 + i % 7:02}/03/{1980 + i};{i % 7},5;{i},25\n" for i in range(40))
    (tmp_path / "houses.csv").write_text(f"day;rooms; price\n{rows}")
    new = ("new", "houses.csv", "--target", " price", "--metric", "rmse")
    code, _, err = trl_mle(*new)
    assert (code, "--read_csv decimal=," in err) == (2, True)
    code, out, _ = trl_mle(*new, "--read_csv", "decimal=,", "date_format=%d/%m/%Y", "--split", "time:day")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "dates day: 1980-03-01 to 2019-03-05, as %d/%m/%Y" in lines
    assert "numbers 1 columns: 'rooms'" in lines
    assert "target price: numbers from 0.25 to 29.25" in lines
    assert "id id, such as" in " ".join(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompt", "winne"], "unknown competition 'winne'; did you mean 'wine'?"),
        (["dokter"], "there is no 'dokter'; did you mean 'doctor'?"),
        (["grade", "wine", "nowhere.csv"], "'nowhere.csv'"),
        (["solve", "wine", "--policy", "x", "--bugdet", "3m"], "--bugdet"),
        (["run", "wine", __file__, "--sandbox", "perhaps"], "sandbox='perhaps'"),
        (["doctor", "--program_python", "/nowhere"], "program_python: /nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(trl_mle, arguments, message):
    code, out, err = trl_mle(*arguments)
    assert (code, out) == (2, "")
    line = err.splitlines()[-1]  # argparse prints the usage before
    assert line.startswith("trl-mle: error: ")
    assert message in line
