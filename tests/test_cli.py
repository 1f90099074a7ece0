import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from trl_mle import __version__, cli
from trl_mle.competitions import list_competitions, load_competition
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome
from trl_mle.prompts import estimate_tokens, scratch_prompt


def test_doctor_tells_which_tier_works(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "\nprograms are isolated by bubblewrap, " in out
    assert f"numpy {numpy.__version__}, pandas " in out
    assert max(map(len, out.splitlines())) <= 80


def test_doctor_tells_what_is_missing(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: 0)
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 1
    assert "bubblewrap is missing" in out
    assert "the kernel has no Landlock" in out
    assert "apt-get install bubblewrap" in out


def test_doctor_does_not_know_what_a_slow_machine_can_do(monkeypatch, capsys):
    monkeypatch.setattr("trl_mle.execution.warm_parent.START_TIMEOUT_S", 0.001)
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr().out
    assert ended.value.code == 2
    assert re.search(r"bubblewrap +│ unknown +│ the sandbox \(bubblewrap\) did not start within 0 s", out)
    assert "It is not known whether a program can run in a sandbox on this machine. Try again when" in out


def test_doctor_does_not_take_a_lost_program_for_one_that_ran(monkeypatch, capsys):
    lost = ExecutionResult(Outcome.INFRASTRUCTURE, "ReportLost: no report within 90 s")
    monkeypatch.setattr(LocalExecutor, "check", lambda self, competition: None)
    monkeypatch.setattr(LocalExecutor, "run_many", lambda self, programs: [lost for _ in programs])
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert re.search(r"bubblewrap +│ unknown +│ a test program did not end", capsys.readouterr().out)


def test_an_error_of_ours_is_no_answer(monkeypatch, capsys):
    def check(self, competition):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(LocalExecutor, "check", check)
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 70  # 1 is the answer that no tier works
    assert capsys.readouterr().err.splitlines()[-1] == "RuntimeError: can't start new thread"


@pytest.mark.slow
def test_doctor_tells_which_package_programs_cannot_import(broken_pillow):
    path = os.pathsep.join([broken_pillow, str(Path(cli.__file__).parents[1])])
    doctor = [sys.executable, "-m", "trl_mle.cli", "doctor"]
    run = subprocess.run(doctor, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    out = " ".join(run.stdout.replace("│", "").split())
    # With Landlock, it is imported before programs are isolated
    assert (
        "bubblewrap no programs cannot import the usual packages inside the sandbox (bubblewrap): PIL: FileNotFoundError: "
        in out
    )
    assert run.returncode == (0 if "landlock yes" in out else 1), run.stdout


def test_a_wrong_command_is_said_in_one_line():
    run = subprocess.run([sys.executable, "-m", "trl_mle.cli", "dokter"], capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].endswith("there is no 'dokter'; did you mean 'doctor'?")


def test_version():
    command = [sys.executable, "-m", "trl_mle.cli", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == f"{__version__}\n"


@pytest.fixture
def trl_mle(monkeypatch, capsys):
    """Runs a command in this process; returns its exit code, output and error."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trl-mle", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        written = capsys.readouterr()
        assert (
            max(map(len, written.out.splitlines()), default=0) <= 80 or "--json" in arguments or "prompt" in arguments
        )
        return ended.value.code, written.out, written.err

    return run


@pytest.fixture
def wine():
    return load_competition("wine")


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


@pytest.mark.parametrize("arguments", [["recipes"], ["competitions", "--json"], ["grade", "wine", "sample.csv"]])
def test_a_closed_pipe_is_no_error(arguments, wine, tmp_path):
    """As in `trl-mle recipes | grep -q starter`; by rich, and by print, whose output may wait until the end."""
    shutil.copy(wine.sample_submission, tmp_path / "sample.csv")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = str(Path(cli.__file__).parents[1])
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "trl_mle.cli", *arguments]
    run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    os.close(writing)
    assert (run.returncode, run.stderr) == (0, "")


def test_help_waits_for_no_library():
    code = "import sys; from trl_mle.cli import make_parser; make_parser(); print({'pandas', 'torch', 'trl'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("solve", ["usage: trl-mle solve COMPETITION --policy POLICY ... [options]"]),
        (
            "evaluate",
            [
                "usage: trl-mle evaluate --policies POLICY ... --competitions COMPETITION ...",
                "                        --output_dir FOLDER [options]",
            ],
        ),
    ],
)
def test_help_begins_with_the_usage(monkeypatch, capsys, command, usage):
    monkeypatch.setattr("sys.argv", ["trl-mle", command, "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.splitlines()[: len(usage) + 1] == [*usage, ""]


def test_solve_takes_its_competition_first(trl_mle):
    assert "did you mean 'wine'?" in trl_mle("solve", "winne", "--policy", "x")[2]
    code, _, err = trl_mle("solve", "--policy", "x")
    assert code == 2
    assert err.splitlines()[-1] == "trl-mle solve: error: the following arguments are required: --competition"
    code, _, err = trl_mle("solve", "wine", "--policy", "x", "--bugdet", "3m")
    assert (code, err.count("\n"), "['--bugdet', '3m']" in err) == (2, 1, True)
    code, _, err = trl_mle("grade", "wine", "x.csv", "--hodlout", "1")
    assert code == 2
    assert err.splitlines()[-1].endswith("error: unrecognized arguments: --hodlout 1")


def test_competitions_for_machines(trl_mle, tmp_path):
    code, out, _ = trl_mle("competitions", "--json", "--data_dir", tmp_path)
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == list_competitions()
    wine = {"id": "wine", "status": "local", "metric": "accuracy", "higher_is_better": True, "test_rows": 53}
    assert wine.items() <= rows["wine"].items()
    assert rows["leaf-classification"]["status"] == "missing"
    assert "mlebench prepare -c leaf-classification" in rows["leaf-classification"]["error"]
    mirror = rows["mirror:leaf-classification"]
    assert (mirror["status"], mirror["metric"], mirror["higher_is_better"]) == ("mirror", "log_loss", False)


def test_competitions_says_how_large_a_mirror_will_be(trl_mle):
    rows = {row["id"]: row for row in json.loads(trl_mle("competitions", "--json")[1])}
    for name in ("mirror:nomad2018-predict-transparent-conductors", "mirror:us-patent-phrase-to-phrase-matching"):
        sample = load_competition(name).sample_submission.read_text()
        assert rows[name]["test_rows"] == len(sample.splitlines()) - 1


def test_competitions_for_people(trl_mle, tmp_path):
    prepared = tmp_path / "spooky-author-identification" / "prepared"
    shutil.copytree(load_competition("mirror:spooky-author-identification?rows=60").public_dir.parent, prepared)
    code, out, _ = trl_mle("competitions", "--data_dir", tmp_path)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "digits log loss ↓ 539" in lines
    assert "spooky-author-identification log loss ↓ 15" in lines
    assert lines.index("prepared: by mlebench prepare") < lines.index("leaf-classification log loss ↓ -")
    assert "learning-agency-lab-automated-essay-scoring-2 quadratic weighted kappa ↑ -" in lines  # not wrapped
    assert "Generated without end: task:train/<n> and task:test/<n>, n = 0, 1, 2, …" in lines


def test_grade(trl_mle, wine):
    code, out, err = trl_mle("grade", "wine", wine.sample_submission)
    score = wine.grade(wine.sample_submission).value
    assert (code, err) == (0, "")
    assert f"{score:.5f} (accuracy ↑)" in out
    code, out, _ = trl_mle("grade", "wine", wine.sample_submission, "--json")
    expected = {
        "competition": "wine",
        "valid": True,
        "score": score,
        "error": None,
        "medal": None,
        "thresholds": None,
        "human_rank": None,
    }
    assert code == 0
    assert expected.items() <= json.loads(out).items()


def test_grade_and_run_with_rows_held_out(trl_mle, wine, tmp_path):
    solution = tmp_path / "solution.py"
    solution.write_text('import shutil\nshutil.copy("input/sample_submission.csv", "submission.csv")')
    score = load_competition("wine", holdout=0.5).grade(wine.sample_submission)
    expected = {"score": score.value, "held_out": score.held_out, "full": score.full}
    assert len(set(expected.values())) == 3
    for command in (("grade", "wine", wine.sample_submission), ("run", "wine", solution)):
        report = json.loads(trl_mle(*command, "--holdout", "0.5", "--json")[1])
        assert expected.items() <= report.items()
    out = trl_mle("grade", "wine", wine.sample_submission, "--holdout", "0.5")[1]
    for part in (f"{score.value:.5f} (accuracy ↑)", f"held out     {score.held_out:.5f}", f"{score.full:.5f}"):
        assert part in out
    code, _, err = trl_mle("grade", "wine", wine.sample_submission, "--holdout", "1")
    assert (code, err) == (2, "trl-mle: error: holdout must be at least 0 and below 1, got 1.0\n")


def test_grade_of_an_invalid_submission(trl_mle, wine):
    code, out, _ = trl_mle("grade", "wine", wine.public_dir / "test.csv")
    assert code == 1
    assert "the submission lacks the columns 'cultivar'" in out
    code, out, _ = trl_mle("grade", "wine", wine.public_dir / "test.csv", "--json")
    assert code == 1
    assert (json.loads(out)["valid"], json.loads(out)["score"]) == (False, None)


def test_grade_tells_the_medal(trl_mle, tmp_path):
    mirror = load_competition("mirror:spooky-author-identification?rows=60").public_dir.parent
    shutil.copytree(mirror, tmp_path / "spooky-author-identification" / "prepared")
    command = ["grade", "spooky-author-identification", mirror / "private" / "test.csv", "--data_dir", tmp_path]
    assert "gold (gold 0.16506," in " ".join(trl_mle(*command)[1].split())
    report = json.loads(trl_mle(*command, "--json")[1])
    assert (report["medal"], report["thresholds"]["median"]) == ("gold", 0.418785)


def test_run(trl_mle, tmp_path):
    solution = tmp_path / "solution.py"
    solution.write_text(PROGRAM)
    code, out, _ = trl_mle("run", "wine", solution, "--program_timeout_s", 30)
    assert code == 0
    for part in ("outcome      valid submission", "milestones   7 of 7", "score ", "(accuracy ↑)", "\n~~~ [bold] ```"):
        assert part in out


@pytest.mark.parametrize(("encoding", "options"), [("latin-1", []), ("ascii", ["--json"])])
def test_run_shows_its_result_in_any_encoding(encoding, options, tmp_path):
    (tmp_path / "solution.py").write_text(PROGRAM.replace("~~~", "é Δ 💾"), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "trl_mle.cli", "run", "wine", tmp_path / "solution.py", *options],
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1]), "PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    out = run.stdout.decode(encoding)
    assert run.returncode == 0, run.stderr
    if options:
        assert "é Δ 💾 [bold]" in json.loads(out)["output"]
    else:
        assert "\n\\u0394t " in out
        assert "é \\u0394 \\U0001f4be [bold]" in out


def test_run_of_what_is_no_program(trl_mle, tmp_path):
    code, out, err = trl_mle("run", "wine", tmp_path)
    assert (code, out, err.count("\n"), "Is a directory" in err) == (2, "", 1, True)


def test_run_of_a_program_that_submits_nothing(trl_mle, tmp_path):
    """Training would call it invalid, though it ended well."""
    solution = tmp_path / "solution.py"
    solution.write_text("x = 1")
    code, out, _ = trl_mle("run", "wine", solution)
    assert code == 1
    assert "outcome      no valid submission" in out
    assert "no submission.csv was written" in out


def test_run_with_the_users_own_executor(trl_mle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("mine.py").write_text(
        "from support.subprocess_executor import SubprocessExecutor\n"
        "class MyExecutor(SubprocessExecutor):\n"
        "    def __init__(self, timeout_s, **options):\n"
        "        print('given', timeout_s, options)\n"
        "        super().__init__()\n"
    )
    Path("solution.py").write_text(PROGRAM)
    code, out, _ = trl_mle("run", "wine", "solution.py", "--executor", "mine.MyExecutor", "--program_timeout_s", 20)
    assert code == 0
    assert "given 20.0 {'memory_mb': 4096, 'threads_per_program': 1, 'max_parallel': 1}\n" in out
    assert "milestones   7 of 7" in out


def test_run_of_a_program_that_fails(trl_mle, tmp_path):
    solution = tmp_path / "solution.py"
    solution.write_text(PROGRAM.replace("input/test.csv", "input/tests.csv"))
    code, out, _ = trl_mle("run", "wine", solution)
    assert code == 1
    for part in ("outcome      error", "FileNotFoundError", "milestones   2 of 7", "not reached: test_data", "-9.8"):
        assert part in out


def test_run_for_machines(trl_mle, tmp_path):
    solution = tmp_path / "solution.py"
    solution.write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    code, out, _ = trl_mle("run", "wine", solution, "--program_timeout_s", "0.5", "--json")
    report = json.loads(out)
    assert code == 1
    assert (report["outcome"], report["valid"], report["score"], report["reward"]) == ("timeout", False, None, -9.9)
    assert report["milestones"] == ["imports"]
    assert report["duration_s"] >= 0.5
    assert "begun" in report["output"]


def test_a_second_command_waits_while_a_run_holds_all_slots(trl_mle, tmp_path, wine):
    """Its checks take none; its program starts when one of the run's ends."""
    solution = tmp_path / "solution.py"
    solution.write_text("print('begun')")
    with LocalExecutor(timeout_s=20) as executor:
        busy = [executor.submit("import time; time.sleep(2)", wine) for _ in range(2 * executor.max_parallel)]
        assert trl_mle("prompt", "wine")[0] == 0
        code, out, _ = trl_mle("run", "wine", solution, "--json")
        report = json.loads(out)
        assert (code, report["outcome"], report["output"]) == (1, "ok", "begun")
        assert report["duration_s"] < 2
        assert {future.result().outcome for future in busy} == {Outcome.OK}


def test_prompt(trl_mle, wine):
    with LocalExecutor(1, 30, 2048) as executor:  # as in training
        asked, begun = scratch_prompt(wine, executor.limits, begin_program=True)
        (plan,) = scratch_prompt(wine, executor.limits)
    code, out, err = trl_mle("prompt", "wine", "--program_timeout_s", 30, "--program_memory_mb", 2048)
    tokens = estimate_tokens(asked["content"]) + estimate_tokens(begun["content"])
    assert (code, out) == (0, f"{asked['content']}\n\nThe answer begins with:\n\n{begun['content']}\n")
    assert str(tokens) in err
    report = json.loads(trl_mle("prompt", "wine", "--program_timeout_s", 30, "--program_memory_mb", 2048, "--json")[1])
    assert report == {"competition": "wine", "prompt": [asked, begun], "estimated_tokens": tokens}
    assert (
        trl_mle("prompt", "wine", "--program_timeout_s", 30, "--program_memory_mb", 2048, "--plan")[1]
        == plan["content"] + "\n"
    )


def test_new_in_80_columns(trl_mle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.csv").write_text("rooms,price\n" + "".join(f"{i % 7},{1000 * i}\n" for i in range(40)))
    code, out, _ = trl_mle("new", "houses.csv", "--target", "price", "--metric", "rmse")
    assert code == 0
    assert "a constant guess scores " in out
    assert "prompts say" not in out  # of numbers there is no rule
    assert "max_at_k, which ranks them." in " ".join(out.split())
    mine = ("--metric", "sklearn.metrics.hamming_loss", "--higher_is_better", "false")
    _, out, _ = trl_mle("new", "houses.csv", "--target", "rooms", *mine, "--to", "rooms")
    assert "prompts say: Predictions are whole numbers." in out


def test_new_prints_what_it_read(trl_mle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{1 + i % 7:02}/03/{1980 + i};{i % 7},5;{i},25\n" for i in range(40))
    (tmp_path / "houses.csv").write_text(f"day;rooms;price\n{rows}")
    new = ("new", "houses.csv", "--target", "price", "--metric", "rmse")
    code, _, err = trl_mle(*new)
    assert (code, "--read_csv decimal=," in err) == (2, True)
    code, out, _ = trl_mle(*new, "--read_csv", "decimal=,", "date_format=%d/%m/%Y", "--split", "time:day")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "dates day: 1980-03-01 to 2019-03-05" in lines
    assert "numbers 1 columns: 'rooms'" in lines
    assert "target price: numbers from 0.25 to 29.25" in lines
    assert "id id, such as" in " ".join(lines)


def test_new_takes_names_that_begin_with_a_dash(trl_mle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 7},{i},{i * i}\n" for i in range(40))
    (tmp_path / "a.b.csv.gz").write_bytes(gzip.compress(f"rooms,-x,-house\n{rows}".encode()))
    code, out, _ = trl_mle("new", "a.b.csv.gz", "--target=-x", "--target=-house", "--metric", "mean_columnwise_rmsle")
    assert code == 0
    assert "./a.b" in out
    assert load_competition("./a.b").target_columns == ("-x", "-house")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompt", "winne"], "unknown competition 'winne'; did you mean 'wine'?"),
        (["prompt", "leaf-classification", "--data_dir", "nowhere"], "mlebench prepare -c leaf-classification"),
        (["prompt", "mirror:leaf-classification?rows=2"], "rows, not 2"),
        (["grade", "wine", "nowhere.csv"], "there is no submission nowhere.csv"),
        (["run", "wine", "nowhere.py"], "there is no program nowhere.py"),
        (["new", "nowhere.csv", "--target", "y", "--metric", "rmse"], "there is no table nowhere.csv"),
        (
            ["solve", "wine", "--policy", "x", "--budget=-5m"],
            "--budget must be a time such as 90s, 10m or 2h, got '-5m'",
        ),
        (["run", "wine", __file__, "--sandbox", "perhaps"], "sandbox='perhaps'"),
        (["prompt", "wine", "--sandbox", "perhaps"], "sandbox='perhaps'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(trl_mle, arguments, message):
    code, out, err = trl_mle(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("trl-mle: error: ")
    assert message in err
    assert err.count("\n") == 1
