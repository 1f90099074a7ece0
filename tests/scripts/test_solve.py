"""`trl-mle solve`: the best submission that a policy finds in a given time."""

import json
import re
import time
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from support.fake_executor import CountingExecutor, ScriptedExecutor
from support.scripted_policy import ScriptedPolicy, fenced

from trl_mle.competitions import Competition, Score, load_competition, own
from trl_mle.evaluation import NoAnswerError, harness
from trl_mle.evaluation.choosing import Chooser, like_sample
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome
from trl_mle.rewards import Evaluation, ProgramLog
from trl_mle.scripts import grade
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


@pytest.fixture(scope="module")
def executor():
    """One sandbox for all searches."""
    with LocalExecutor(max_parallel=2, timeout_s=60) as executor:
        yield executor


@pytest.fixture
def scripted(monkeypatch, tmp_path, executor):
    """A policy without a model, whose programs take 5 s each, and whose answers depend on the samples' numbers."""
    policy = ScriptedPolicy(answer)
    monkeypatch.setattr(harness, "sample_seeds", lambda seed, competition, numbers: [seed + i for i in numbers])
    monkeypatch.setattr(harness, "load_policy", lambda name: policy)
    monkeypatch.setattr(module, "check_policy", lambda name: None)
    monkeypatch.setattr(module, "make_executor", lambda args: nullcontext(executor))
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


def shift_of(submission):
    """How far predictions are from the mean of the labels."""
    mean = pd.read_csv(load_competition("diabetes").public_dir / "train.csv")["progression"].mean()
    return pd.read_csv(submission)["progression"].mean() - mean


def test_half_of_the_hidden_rows_choose_and_the_others_are_reported(scripted, tmp_path, capsys):
    submission = solve(asked())
    assert submission.resolve() == tmp_path / "solved" / "diabetes" / "scripted" / "submission.csv"
    # 12 programs: after the first batches, half of them improve or repair others
    assert len(scripted.prompts) == 12
    solved = submission.parent
    written = sorted(rows_of(solved, "text"), key=lambda row: row["index"])
    steps = [row["step"] for row in written]
    assert steps[:6] == ["scratch", "scratch", "scratch", "scratch", "debug", "scratch"]  # one program has failed
    assert written[4]["parent"] == 1
    assert steps[6:8] == ["scratch"] * 2
    assert "improve" in steps[8:]
    repairs = [prompt for prompt in scripted.prompts if "Here is a program that failed:" in prompt[0]["content"]]
    assert len(repairs) == steps.count("debug")
    rows = rows_of(solved, "score")
    best = min(row["score"]["value"] for row in rows if row["score"] is not None)
    score = load_competition("diabetes", holdout=0.5).grade(submission)
    assert score.value == best
    said = capsys.readouterr()
    words = " ".join(said.out.split())
    assert f"the best of them score {best:.5f}, on the rows that chose it" in words
    assert f"held out {score.held_out:.5f} " in words
    assert " left  6 programs" in said.err


def test_the_best_ideas_are_varied(scripted, tmp_path):
    """In place of repairing and improving programs; every idea comes once before any comes twice."""
    (tmp_path / "ideas.yaml").write_text("- Ridge(alpha=4)\n- a forest\n")
    solved = solve(asked(ideas="ideas.yaml")).parent
    rows = {row["index"]: row for row in rows_of(solved, "text")}
    ideas = {step: {row["idea"] for row in rows.values() if row["step"] == step} for step in ("scratch", "vary")}
    assert ideas["scratch"] == {"Ridge(alpha=4)", "a forest"}
    turns = [row["idea"] for _, row in sorted(rows.items()) if row["step"] == "scratch"]
    assert all(set(turns[i : i + 2]) == ideas["scratch"] for i in range(0, len(turns) - 1, 2))
    assert ideas["vary"]
    assert ideas["vary"] < {f"Ridge(alpha={number})" for number in (1, 2, 8, 12)}
    valid = {row["index"] for row in rows_of(solved, "score") if row["score"] is not None}
    for row in rows.values():
        parent = rows.get(row["parent"])
        if row["step"] == "vary":
            assert row["parent"] in valid
            assert parent["idea"].startswith("Ridge")
            assert f"Fit {row['idea']} to" in scripted.prompts[scripted.seeds.index(row["index"])][-1]["content"]
        else:
            assert row["step"] == "scratch"


def test_it_starts_from_programs(scripted, tmp_path, capsys):
    """By default from the best one of the policy's own run."""
    run, own = tmp_path / "run", tmp_path / "own.py"
    best = run / "best_solutions" / "diabetes" / "solution.py"
    best.parent.mkdir(parents=True)
    best.write_text(PROGRAM.format(shift=4))
    own.write_text(PROGRAM.format(shift=2))
    scripted.answer = lambda prompt, seed: (
        program(float(SHIFT.search(prompt)[1]) / 2) if SHIFT.search(prompt) else "no"
    )
    solved = solve(asked(start=[str(run), str(own)])).parent
    steps = {row["index"]: row["step"] for row in rows_of(solved, "text")}
    shifts = {row["index"]: SHIFT.search(row["source"] or "") for row in rows_of(solved, "score")}
    assert [steps[i] for i in range(3)] == ["start", "start", "scratch"]
    assert [float(shifts[i][1]) for i in range(2)] == [4, 2]
    assert shift_of(solved / "submission.csv") < 2
    assert "the best programs" in capsys.readouterr().out
    again = solve(asked(policy="run")).parent
    assert [row["step"] for row in rows_of(again, "text")][:2] == ["start", "scratch"]
    with pytest.raises(ValueError, match="best_solutions has no best solution of diabetes"):
        solve(asked(start=["run/best_solutions"]))


def test_rows_whose_labels_nobody_knows(command, scripted, tmp_path, executor, monkeypatch, capsys):
    """The best program on the four folds finally runs with all labels, as `run --output` does; one that fails on so few
    is passed over, and so is one that was lucky on the hidden rows."""
    diabetes = load_competition("diabetes").public_dir
    table = pd.read_csv(diabetes / "train.csv")
    table.to_csv("patients.csv", index=False)
    pd.read_csv(diabetes / "test.csv").head(9).to_csv("unknown.csv", index=False)
    test = tmp_path / "unknown.csv"
    comp = own.new_competition(tmp_path / "patients.csv", ["progression"], "rmse", tmp_path / "patients", test=test)
    hidden = pd.read_csv(comp.sample_submission)["id"][0]
    picky = PROGRAM.replace("mean =", "assert len(sub) > 9\nmean =").format(shift=0)
    lucky, plain = PROGRAM.format(shift=f"(20 if {hidden} in set(sub['id']) else 60)"), PROGRAM.format(shift=30)
    scripted.answer = lambda prompt, seed: fenced([picky, lucky, plain][seed % 3])
    submission = solve(asked(competition="./patients"))
    predicted = pd.read_csv(submission)
    assert list(predicted["id"]) == list(pd.read_csv("unknown.csv")["id"])
    assert "mean + 30" in (submission.parent / "solution.py").read_text()
    assert np.allclose(predicted["progression"], table["progression"].mean() + 30)  # the mean of all rows
    said = capsys.readouterr()
    assert "is skipped: when run again, AssertionError" in said.err
    assert "number 2 of them, the best that ran again" in " ".join(said.out.split())
    assert "held out" not in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    monkeypatch.setattr(grade, "make_executor", lambda args: nullcontext(executor))
    assert command("run", "./patients", submission.parent / "solution.py", "--output", "mine.csv") == 0
    assert pd.read_csv("mine.csv").equals(predicted)
    broken = ScriptedExecutor(*[ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")] * 8)
    chooser = Chooser(comp, own.final_competition(comp), broken, PlainConsole(stderr=True), tmp_path / "folds.json")
    assert chooser.choose([Evaluation(1.0, score=Score(1.0, True), source=plain)], lambda: True) is None
    assert (chooser.scores, chooser.submissions) == ({}, {})  # it may run another time


def test_it_goes_on_after_an_interruption(scripted, tmp_path, monkeypatch, executor, capsys):
    """The best so far survives, nothing is sampled again, and the time that was used up counts."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "make_executor", lambda args: nullcontext(CountingExecutor(executor, 7)))
        with pytest.raises(KeyboardInterrupt):
            solve(asked())
    solved = tmp_path / "solved" / "diabetes" / "scripted"
    best = load_competition("diabetes", holdout=0.5).grade(solved / "submission.csv")
    assert "submission.csv is the best so far" in capsys.readouterr().err
    solve(asked())
    assert sorted(scripted.seeds) == list(range(12))
    assert load_competition("diabetes", holdout=0.5).grade(solved / "submission.csv").value <= best.value
    rows = rows_of(solved, "score")
    assert sorted(row["index"] for row in rows) == list(range(12))
    before = (solved / "submission.csv").read_bytes()
    solve(asked())
    assert (len(scripted.seeds), (solved / "submission.csv").read_bytes()) == (12, before)  # the time is used up
    with pytest.raises(ValueError, match="was made with other settings"):
        solve(asked(seed=1))


def test_the_search_goes_on_without_an_answer_that_is_missing(scripted, tmp_path, capsys):
    """Each program counts once and under its own number."""

    def answer(prompt, seed):
        shown = SHIFT.search(prompt)
        return None if seed in (0, 7) else program(seed + 10.0 if shown is None else float(shown[1]) / 2)

    scripted.answer = answer
    for _ in range(2):
        solved = solve(asked(batch_size=8, budget="49.5s")).parent
    assert scripted.seeds == sorted({*scripted.seeds})  # none is asked again
    rows = rows_of(solved, "score")
    shift = {row["index"]: float(SHIFT.search(row["source"])[1]) for row in rows}
    improved = [row for row in rows if row["parent"] is not None]
    assert len(improved) >= 2
    assert all(shift[row["index"]] == shift[row["parent"]] / 2 for row in improved)


def test_an_endpoint_that_answers_nothing_more(scripted, tmp_path, capsys):
    """The search ends, and says where the best submission is; as if the time were up, if there was time for one more program."""
    scripted.answer = lambda prompt, seed: None if seed > 1 else program(1.0)
    with pytest.raises(NoAnswerError, match=r"the last error was: 429 at \d$"):
        solve(asked(batch_size=8))
    assert "submission.csv is the best so far" in capsys.readouterr().err
    scripted.answer = lambda prompt, seed: None if seed > 2 else program(1.0)
    assert solve(asked(budget="21s", output_dir="last")).is_file()


def test_programs_that_still_run_when_the_time_is_up_are_ended(scripted, monkeypatch):
    """Everything counts, also their time."""
    scripted.answer = lambda prompt, seed: fenced("import time\ntime.sleep(600)" if seed % 2 else SUBMIT)
    # The time is up when one of the two has ended
    executed = lambda log: sum(sample.evaluation is not None for sample in log.samples.values())  # noqa: E731
    monkeypatch.setattr(ProgramLog, "now", lambda log: 1e6 * executed(log))
    began = time.monotonic()
    assert solve(asked()).is_file()
    assert time.monotonic() - began < 50


def test_answers_that_the_time_cuts_off(scripted, monkeypatch, capsys):
    """An endpoint's answers count if they come in time. Missing ones are no error of the endpoint then."""
    clock = [0.0]
    monkeypatch.setattr(ProgramLog, "now", lambda log: clock[0])

    def answer(prompt, seed):
        if seed < 1:
            return program(1.0)
        clock[0] = 63.0

    scripted.answer = answer
    solve(asked())
    assert "1 in 01:03, 1 of them valid" in capsys.readouterr().out
    assert len(scripted.seeds) == 2
    assert 55 < scripted.max_times_s[0] <= 63


def test_what_is_refused(scripted, tmp_path):
    assert [seconds_of(text) for text in ("90s", "10m", "1.5h")] == [90, 600, 5400]
    (tmp_path / "solution.py").write_text("mine")  # is not overwritten
    for options, message in (
        ({"budget": "ten"}, "--budget must be a time"),
        ({"budget": "0m"}, "--budget must be a time"),
        ({"max_prompt_length": 0}, "--max_prompt_length must be at least 1"),
        ({"output_dir": "."}, r"--output_dir: solution\.py is not from an earlier run"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(asked(**options))


def test_a_policy_that_solves_nothing(scripted, tmp_path, capsys):
    scripted.answer = lambda prompt, seed: fenced("1 / 0")
    with pytest.raises(ValueError, match="no program made a valid submission"):
        solve(asked())
    assert " of 12: ZeroDivisionError: division by zero\n" in capsys.readouterr().err
    assert not (tmp_path / "solved" / "diabetes" / "scripted" / "submission.csv").exists()


def test_a_submission_has_the_ids_of_the_sample(tmp_path):
    """In its order, and labels stay as they are; not where only their order distinguishes rows of one id."""
    for ids, labels, submission, written in (
        ("01 02 03", "01 02 1A", b"id,y\n3,01\n2,02\n1,1A\n", b"id,y\n01,1A\n02,02\n03,01\n"),
        ("1 1 2", "01 02 1A", b"id,y\n1,1A\n1,02\n2,01\n", b"id,y\n1,1A\n1,02\n2,01\n"),
        ("1 2", "True False", b"id,y\n2,True\n1,False\n", b"id,y\n1,False\n2,True\n"),
    ):
        path = tmp_path / "answers.csv"
        pd.DataFrame({"id": ids.split(), "y": labels.split()}).to_csv(path, index=False)
        comp = Competition("codes", "accuracy", tmp_path, path, path, ("y",))
        assert like_sample(submission, comp) == written
