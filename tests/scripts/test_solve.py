"""`trl-mle solve`: the best submission that a policy finds in a given time."""

import json
import re
import time
from itertools import count

import numpy as np
import pandas as pd
import pytest
from support.scripted_policy import CountingExecutor, ScriptedPolicy, fenced

from trl_mle.competitions import Competition, CompetitionError, Score, load_competition, own
from trl_mle.evaluation import NoAnswerError, harness, submission_search
from trl_mle.evaluation.submission_search import like_sample
from trl_mle.execution import ExecutionResult, Limits, Outcome
from trl_mle.rewards import Evaluation, ProgramLog
from trl_mle.scripts import solve as module
from trl_mle.scripts.solve import SolveArguments, seconds_of, solve
from trl_mle.showing import PlainConsole


PROGRAM = """\
import pandas as pd
train, sub = pd.read_csv("input/train.csv"), pd.read_csv("input/sample_submission.csv")
mean = train["progression"].mean()
sub["progression"] = mean + {shift}
sub.to_csv("submission.csv", index=False)
"""
SUBMIT = """\
import pandas as pd
pd.read_csv("input/sample_submission.csv").to_csv("submission.csv", index=False)
"""


SHIFT = re.compile(r"mean \+ ([\d.]+)")


def program(shift):
    return fenced(PROGRAM.format(shift=shift))


def answer(prompt, seed):
    """
    From scratch, in turn: no program, a failing one, and ones that are far from the mean. An improvement is half as far as
    what it was shown.
    """
    shown = SHIFT.search(prompt)
    if shown is not None:
        return program(float(shown[1]) / 2)
    return ["no program", fenced("1 / 0"), program(80.0), program(60.0), program(40.0)][seed % 5]


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    """A policy without a model, whose programs take 5 s each, and whose answers depend on the samples' numbers."""
    policy = ScriptedPolicy(answer)
    monkeypatch.setattr(harness, "sample_seeds", lambda seed, competition, numbers: [seed + i for i in numbers])
    monkeypatch.setattr(module, "load_policy", lambda name: policy)
    monkeypatch.setattr(module, "check_policy", lambda name: None)
    monkeypatch.setattr(module, "monotonic", lambda: 0.0)
    monkeypatch.setattr(ProgramLog, "now", lambda log: 4.99 * len(log.samples))
    monkeypatch.chdir(tmp_path)
    return policy


def asked(**options):
    return SolveArguments(
        **{"competition": "diabetes", "policy": "scripted", "budget": "63s", "batch_size": 4} | options
    )


def rows_of(solved, key):
    """The lines of completions ("text"), or of evaluations ("score")."""
    return [row for line in (solved / "programs.jsonl").read_text().splitlines() if key in (row := json.loads(line))]


def executed(log):
    return sum(sample.evaluation is not None for sample in log.samples.values())


def shift_of(submission):
    """How far predictions are from the mean of the labels."""
    mean = pd.read_csv(load_competition("diabetes").public_dir / "train.csv")["progression"].mean()
    return pd.read_csv(submission)["progression"].mean() - mean


def test_half_of_the_hidden_rows_choose_and_the_others_are_reported(scripted, tmp_path, capsys):
    submission = solve(asked())
    assert submission.resolve() == tmp_path / "solved" / "diabetes" / "submission.csv"
    # 12 programs: after the first batches, half of them improve or repair others
    assert len(scripted.prompts) == 12
    solved = submission.parent
    written = sorted(rows_of(solved, "text"), key=lambda row: row["index"])
    steps = [row["step"] for row in written]
    assert steps[:6] == ["scratch", "scratch", "scratch", "scratch", "debug", "scratch"]  # one program has failed
    assert written[4]["parent"] == 1
    assert steps[6:8] == [steps[10]] * 2 == ["scratch"] * 2
    assert "improve" in (improving := [*steps[8:10], steps[11]])
    assert "scratch" not in improving
    repairs = [prompt for prompt in scripted.prompts if "Here is a program that failed:" in prompt[0]["content"]]
    assert len(repairs) == steps.count("debug")
    rows = rows_of(solved, "score")
    best = min(row["score"]["value"] for row in rows if row["score"] is not None)
    score = load_competition("diabetes", holdout=0.5).grade(submission)
    assert score.value == best
    said = capsys.readouterr()
    words = " ".join(said.out.split())
    assert f"the best of them, by their scores on half of the hidden rows {best:.5g}" in words
    assert f"held out {score.held_out:.5g}, on the other half" in words
    assert " left  6 programs" in said.err
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_rows_whose_labels_nobody_knows(scripted, tmp_path, capsys):
    """The best program on the hidden rows finally runs with all labels."""
    diabetes = load_competition("diabetes").public_dir
    table = pd.read_csv(diabetes / "train.csv")
    table.to_csv("patients.csv", index=False)
    pd.read_csv(diabetes / "test.csv").head(9).to_csv("unknown.csv", index=False)
    test = tmp_path / "unknown.csv"
    own.new_competition(tmp_path / "patients.csv", ["progression"], "rmse", tmp_path / "patients", test=test)
    submission = solve(asked(competition="./patients"))
    predicted = pd.read_csv(submission)
    assert list(predicted["id"]) == list(pd.read_csv("unknown.csv")["id"])
    shift = float(SHIFT.search((submission.parent / "solution.py").read_text())[1])
    assert np.allclose(predicted["progression"], table["progression"].mean() + shift)  # the mean of all rows
    said = capsys.readouterr()
    assert "by their scores on the hidden rows" in " ".join(said.out.split())
    assert "best: rmse" in said.err
    assert "held out" not in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_where_no_rows_can_be_held_out_it_says_so(scripted, monkeypatch, capsys):
    def refused(competition):
        if competition.holdout:
            raise CompetitionError("it is graded on all rows")

    monkeypatch.setattr(Competition, "check_answers", refused)
    scripted.answer = lambda prompt, seed: program(1.0)
    score = load_competition("diabetes").grade(solve(asked(budget="9s")))
    said = " ".join(capsys.readouterr().out.split())
    assert f"by their scores on the hidden rows {score.value:.5g} the rows that it was chosen on" in said


def test_nothing_of_ones_own_is_overwritten(scripted, tmp_path):
    (tmp_path / "solution.py").write_text("mine")
    (tmp_path / "solution_mine.py").write_text("mine")
    with pytest.raises(ValueError, match=r"--output_dir: \. holds solution\.py, which is not from an earlier run"):
        solve(asked(output_dir="."))
    (tmp_path / "solution.py").unlink()
    solve(asked(output_dir="."))
    assert sorted(path.name for path in tmp_path.glob("sol*.py")) == ["solution.py", "solution_mine.py"]


def test_another_competition_of_the_name_is_another(scripted, tmp_path):
    table = pd.read_csv(load_competition("diabetes").public_dir / "train.csv")
    for factor in (1, 1000):
        table.assign(progression=table["progression"] * factor).to_csv("table.csv", index=False)
        comp = own.new_competition(
            tmp_path / "table.csv", ["progression"], "rmse", tmp_path / str(factor) / "patients"
        )
        ask = asked(competition=str(comp.public_dir.parent), output_dir="solved")
        if factor == 1:
            solve(ask)
        else:
            with pytest.raises(ValueError, match="was made with other settings"):
                solve(ask)


def test_a_program_that_fails_in_the_end_is_passed_over(scripted, tmp_path, capsys):
    """By far the best program on held-out rows fails on a test set with few rows."""
    public = load_competition("diabetes").public_dir
    pd.read_csv(public / "train.csv").to_csv("patients.csv", index=False)
    pd.read_csv(public / "test.csv").head(9).to_csv("unknown.csv", index=False)
    test = tmp_path / "unknown.csv"
    own.new_competition(tmp_path / "patients.csv", ["progression"], "rmse", tmp_path / "patients", test=test)
    picky = PROGRAM.replace("mean =", "assert len(sub) > 9\nmean =").format(shift=0)
    plain = PROGRAM.format(shift=30)
    scripted.answer = lambda prompt, seed: fenced([picky, plain][seed % 2])
    assert "mean + 30" in (solve(asked(competition="./patients")).parent / "solution.py").read_text()
    said = capsys.readouterr()
    assert "number 1 of 2 is skipped: when run again, AssertionError" in said.err
    assert "number 2 of them, the best that ran again" in " ".join(said.out.split())


def test_it_goes_on_after_an_interruption(scripted, tmp_path, monkeypatch):
    whole = solve(asked(output_dir="whole")).read_bytes()
    made = module.make_executor

    def interrupted(args):
        return CountingExecutor(made(args), 5)

    with monkeypatch.context() as patch:
        patch.setattr(module, "make_executor", interrupted)
        with pytest.raises(KeyboardInterrupt):
            solve(asked(output_dir="parts"))
    before = len(scripted.prompts)
    assert solve(asked(output_dir="parts")).read_bytes() == whole
    assert len(scripted.prompts) - before < 12  # earlier completions are not sampled again
    again = len(scripted.prompts)
    assert solve(asked(output_dir="parts")).read_bytes() == whole
    assert len(scripted.prompts) == again  # the time is used up
    with pytest.raises(ValueError, match="was made with other settings"):
        solve(asked(output_dir="parts", seed=1))


def test_no_time_is_kept_back_for_programs_that_do_not_run_again(scripted, monkeypatch, tmp_path):
    """The worst program took 110 s, the best ones take one."""

    class Timed:
        def evaluate_many(self, items, on_done, time_is_up):
            evaluations = []
            for text, _ in items:
                is_worst = text == "0"
                score = Score(50.0 if is_worst else 10.0, valid=True)
                found = Evaluation(1.0, 110.0 if is_worst else 1.0, score, "ok", source=text)
                on_done(len(evaluations), found)
                evaluations.append(found)
            return evaluations

    scripted.answer = lambda prompt, seed: str(seed)
    log = ProgramLog(tmp_path / "programs.jsonl", {})
    asked_of = harness.Harness(
        scripted, load_competition("diabetes"), Timed(), log, 64, 2048, Limits(), 0, 16, begin_program=False
    )
    console = PlainConsole(stderr=True)
    found = submission_search.search(asked_of, 200.0, console)
    assert len(found) > 16


def test_the_best_so_far_survives_an_interruption(scripted, monkeypatch, tmp_path, capsys):
    made = module.make_executor
    monkeypatch.setattr(module, "make_executor", lambda args: CountingExecutor(made(args), 7))
    with pytest.raises(KeyboardInterrupt):
        solve(asked())
    assert load_competition("diabetes").grade(tmp_path / "solved" / "diabetes" / "submission.csv").valid
    assert "submission.csv is the best so far; the same command goes on" in capsys.readouterr().err


def test_a_program_that_hangs_in_the_end_is_ended(scripted, monkeypatch, tmp_path, capsys):
    """The best so far remains, and the next one does not take more time than there is."""
    scripted.answer = lambda prompt, seed: program(90.0 - 10 * seed)
    execute, late, ticks = submission_search._executed, [], count(30)

    def hangs(source, competition, executor, time_is_up):
        if late:  # the first one was the best of the first batch
            source = "import time\ntime.sleep(600)"
            monkeypatch.setattr(ProgramLog, "now", lambda log: float(next(ticks)))
        late.append(source)
        return execute(source, competition, executor, time_is_up)

    monkeypatch.setattr(submission_search, "_executed", hangs)
    began = time.monotonic()
    submission = solve(asked(budget="34s", program_timeout_s=900.0))
    assert time.monotonic() - began < 300
    assert len(late) == 2
    assert "80.0" in (submission.parent / "solution.py").read_text()
    assert "is skipped: when run again, the time was up" in capsys.readouterr().err


def test_going_on_does_not_go_back(scripted, monkeypatch, tmp_path, capsys):
    """What earlier batches found neither replaces the best so far nor runs again, also if the search goes on."""
    first = solve(asked()).parent / "solution.py"
    best = first.read_text()
    written, again = [], []
    write, execute = module._write, submission_search._executed

    def interrupted(folder, *rest):
        write(folder, *rest)
        written.append((folder / "solution.py").read_text())
        raise KeyboardInterrupt

    def noted(source, *rest):
        again.append(source)
        return execute(source, *rest)

    monkeypatch.setattr(module, "_write", interrupted)
    monkeypatch.setattr(submission_search, "_executed", noted)
    with pytest.raises(KeyboardInterrupt):
        solve(asked(budget="90s"))
    assert written == again == [best]
    assert first.read_text() == best
    assert "submission.csv is the best so far" in capsys.readouterr().err


def test_programs_that_fail_in_the_end_do_not_take_more_time(scripted, monkeypatch, capsys):
    """A few are tried after each batch, and none when the time is up, except for the first."""
    scripted.answer = lambda prompt, seed: program(seed + 1.0)
    again = []

    def late(source, *rest):
        again.append(source)
        return ExecutionResult(Outcome.ERROR, "too few rows")

    monkeypatch.setattr(submission_search, "_executed", late)
    tried = {"34s": 2 + 3, "9s": 1}  # batches of 2 and 4 programs; one of 2, whose time is up
    for budget, number in tried.items():
        again.clear()
        with pytest.raises(
            ValueError, match=rf"programs, {number} ran again in the time left, and none was valid then"
        ):
            solve(asked(budget=budget, output_dir=budget))
        assert len(again) == number
    assert capsys.readouterr().err.count("is skipped: when run again, too few rows") == sum(tried.values())


def test_prompts_without_an_answer_are_asked_again(scripted, tmp_path, capsys):
    """
    Each program counts once and under its own number. The search goes on without what is refused, also when it is refused
    again, and asks nothing again when the time is up.
    """
    down = {0, 7}

    def answer(prompt, seed):
        shown = SHIFT.search(prompt)
        return None if seed in down else program(seed + 10.0 if shown is None else float(shown[1]) / 2)

    scripted.answer = answer
    for _ in range(2):
        solve(asked(batch_size=8, budget="49.5s"))
    assert scripted.seeds == [*range(11), 0, 7]
    down.clear()
    before = len(scripted.seeds)
    solve(asked(batch_size=8, budget="1s"))
    assert len(scripted.seeds) == before
    solved = solve(asked(batch_size=8)).parent
    assert scripted.seeds[before:] == [0, 7, 11]
    assert "12 in 00:59, 12 of them valid" in capsys.readouterr().out
    rows = rows_of(solved, "score")
    assert sorted(row["index"] for row in rows) == list(range(12))
    shift = {row["index"]: float(SHIFT.search(row["source"])[1]) for row in rows}
    improved = [row for row in rows if row["parent"] is not None]
    assert len(improved) >= 4
    assert all(shift[row["index"]] == shift[row["parent"]] / 2 for row in improved)


def test_an_endpoint_that_answers_nothing_more(scripted, tmp_path, capsys):
    """The search ends, and says where the best submission is."""
    scripted.answer = lambda prompt, seed: None
    with pytest.raises(NoAnswerError, match="has not answered 2 of 2 prompts"):
        solve(asked())
    assert "best so far" not in capsys.readouterr().err
    scripted.answer = lambda prompt, seed: None if seed > 1 else program(1.0)
    with pytest.raises(NoAnswerError, match=r"the last error was: 429 at \d$"):
        solve(asked(batch_size=8))
    assert "submission.csv is the best so far; the same command goes on" in capsys.readouterr().err
    assert load_competition("diabetes").grade(tmp_path / "solved" / "diabetes" / "submission.csv").valid


def test_it_resumes_past_a_whole_batch_without_an_answer(scripted, capsys):
    """One prompt of each of two batches of 2 is refused, always, and these are next to each other."""
    scripted.answer = lambda prompt, seed: None if seed in (1, 2) else program(1.0)
    for budget in ("31s", "31s", "1s"):
        solve(asked(batch_size=2, budget=budget))
        assert "6 in 00:29, 6 of them valid" in capsys.readouterr().out
    assert scripted.seeds == [*range(8), 1, 2]


def test_a_last_prompt_without_an_answer(scripted):
    """When there is time for one more program, the search ends as if the time were up."""
    scripted.answer = lambda prompt, seed: None if seed > 2 else program(1.0)
    assert solve(asked(budget="21s")).is_file()


def test_programs_that_still_run_when_the_time_is_up_are_ended(monkeypatch, tmp_path):
    """Everything counts, also their time."""
    monkeypatch.chdir(tmp_path)
    policy = ScriptedPolicy(lambda prompt, seed: fenced("import time\ntime.sleep(600)" if seed % 2 else SUBMIT))
    monkeypatch.setattr(module, "load_policy", lambda name: policy)
    monkeypatch.setattr(module, "check_policy", lambda name: None)
    monkeypatch.setattr(ProgramLog, "now", lambda log: 1e6 * executed(log))  # up when one of the two has ended
    began = time.monotonic()
    assert solve(asked(program_timeout_s=900.0, max_parallel_programs=2)).is_file()
    assert time.monotonic() - began < 300


def test_an_answer_ends_when_the_time_is_up(scripted):
    """With 63 s, and a program that runs again at the end, batches begin later and later."""
    solve(asked())
    first, *_, last = scripted.max_times_s
    assert 55 < first <= 63
    assert 0 <= last < first / 2


@pytest.mark.parametrize("answered", [0, 1])
def test_answers_that_the_time_cuts_off(scripted, monkeypatch, capsys, answered):
    """An endpoint's answers count if they come in time. Missing ones are no error of the endpoint then."""
    clock = [0.0]
    monkeypatch.setattr(ProgramLog, "now", lambda log: clock[0])

    def answer(prompt, seed):
        if seed < answered:
            return program(1.0)
        clock[0] = 63.0

    scripted.answer = answer
    if answered:
        solve(asked())
        assert "1 in 01:03, 1 of them valid" in capsys.readouterr().out
    else:
        with pytest.raises(ValueError, match=r"^no program made a valid submission .* give it more time"):
            solve(asked())
    assert len(scripted.seeds) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "ten"}, "--budget must be a time such as 90s, 10m or 2h, got 'ten'"),
        ({"budget": "0m"}, "--budget must be a time"),
        ({"batch_size": 0}, "--batch_size must be at least 1, got 0"),
        ({"seed": 2**32}, "--seed must be from 0 to 4294967295"),
        ({"competition": "whine"}, "did you mean 'wine'"),
    ],
)
def test_what_cannot_be_asked(scripted, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        solve(asked(**options))
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_solves_nothing(scripted, tmp_path, capsys):
    scripted.answer = lambda prompt, seed: fenced("1 / 0")
    with pytest.raises(
        ValueError, match=r"no program made a valid submission \(all programs: .*\): give it more time"
    ):
        solve(asked())
    said = capsys.readouterr().err
    assert re.search(r"^\d+ of 12 programs: ZeroDivisionError: division by zero; for example:$", said, re.MULTILINE)
    assert "    ZeroDivisionError: division by zero" in said.splitlines()
    assert not (tmp_path / "solved" / "diabetes" / "submission.csv").exists()


def test_times():
    assert [seconds_of(text) for text in ("90s", "10m", "1.5h")] == [90, 600, 5400]
    assert submission_search.clock(61) == "01:01"
    assert submission_search.clock(3600) == "01:00:00"
    assert submission_search.clock(30 * 3600) == "30:00:00"


def test_a_submission_has_the_ids_of_the_sample(tmp_path):
    """In its order, and labels stay as they are; not where only their order distinguishes rows of one id."""
    for ids, submission, written in (
        ("01 02 03", b"id,y\n3,01\n2,02\n1,1A\n", b"id,y\n01,1A\n02,02\n03,01\n"),
        ("1 1 2", b"id,y\n1,1A\n1,02\n2,01\n", b"id,y\n1,1A\n1,02\n2,01\n"),
    ):
        path = tmp_path / "answers.csv"
        pd.DataFrame({"id": ids.split(), "y": ["01", "02", "1A"]}).to_csv(path, index=False)
        comp = Competition("codes", "accuracy", tmp_path, path, path, ("y",))
        assert like_sample(submission, comp) == written
