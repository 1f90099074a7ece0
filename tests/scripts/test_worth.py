"""`trl-mle worth`: a run against sampling the policy that it began with."""

import json
import math
import shutil
from itertools import combinations
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
from support.scripted_policy import ScriptedPolicy, fenced
from support.training_runs import make_run

from trl_mle.evaluation.sample_log import Sample, SampleLog, Written
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.report.training_run import read_run
from trl_mle.rewards import Evaluation
from trl_mle.rewards.progress import ARGUMENTS_FILE
from trl_mle.scripts import worth as module
from trl_mle.scripts.worth import Found, WorthArguments, chance_of_one, seconds_of, worth


PROGRAM = """\
import pandas as pd
from sklearn.tree import DecisionTreeClassifier
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = DecisionTreeClassifier(max_depth={depth}, random_state=0)
features = [name for name in test.columns if name != "id"]
model.fit(train[features], train["cultivar"])
test["cultivar"] = model.predict(test[features])
test[["id", "cultivar"]].to_csv("submission.csv", index=False)
"""


def make_ended_run(folder, steps, **options):
    shutil.rmtree(folder / "executions", ignore_errors=True)
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    make_run(folder, steps=steps, programs=4, improve=False, **options)
    shutil.copy(folder / f"checkpoint-{steps}" / "trainer_state.json", folder)
    return folder


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A run of 3 steps with 4 programs, whose policy writes trees; the untrained one fails every other time."""
    policies = {
        str(tmp_path / "run"): ScriptedPolicy(lambda prompt, seed: fenced(PROGRAM.format(depth=3)), "trained"),
        "base": ScriptedPolicy(
            lambda prompt, seed: fenced(PROGRAM.format(depth=1 + seed % 3)) if seed % 2 else "no program", "base"
        ),
    }
    monkeypatch.setattr(module, "load_policy", lambda name, revision: policies[name])
    monkeypatch.setattr(module, "check_policy", lambda name: None)
    monkeypatch.setattr(SampleLog, "now", lambda log: float(len(log.written)))  # a second per program
    folder = make_ended_run(tmp_path / "run", steps=3)
    arguments = {
        "model_name_or_path": "base", "model_revision": "main", "chat_template_kwargs": None, "competitions": ["wine"], "data_dir": None, "holdout": 0.0, "begin_program": False, "ideas": "none", "max_prompt_length": 1024,
        "max_completion_length": 256, "objective": "reward", "max_at_k": None, "fail_reward": -10.0, "milestone_reward": 0.1, "program_timeout_s": 30.0, "program_memory_mb": 4096, "threads_per_program": 1,
        "program_python": None, "executor": None,
    }  # fmt: skip
    (folder / ARGUMENTS_FILE).write_text(json.dumps(arguments))
    return folder, policies


def test_as_many_programs_and_as_many_seconds(run, capsys):
    folder, policies = run
    worth(WorthArguments(str(folder), num_samples=4, batch_size=4))
    report = json.loads((folder / "worth" / "worth.json").read_text())
    trained, programs, seconds = [Found(**found) for found in report["wine"]]
    in_training = read_run(folder, "run")
    valid = in_training.executions["valid"].sum()
    assert (trained.programs, trained.seconds) == (12 + 4, 3 * 2.0 + 4.0)
    assert trained.valid_rate == (valid + 4) / 16
    scores = []
    rows = [json.loads(line) for line in (folder / "worth" / "untrained-base.jsonl").read_text().splitlines()]
    for row in rows:
        scores.append(row["score"]["value"] if row["score"] else None)
    assert trained.score == max(in_training.best[0]["score"], max(score for score in scores if score is not None))
    # The untrained policy writes a program a second
    assert (programs.programs, programs.seconds) == (16, 16.0)
    assert (seconds.programs, seconds.seconds) == (10, 10.0)
    assert programs.score == max(score for score in scores if score is not None)
    bests = [max(score for score in chosen if score is not None) for chosen in combinations(scores, 10)]
    assert seconds.score == pytest.approx(fmean(bests))
    assert seconds.low <= seconds.score <= seconds.high
    assert tuple(programs.as_good) == chance_of_one(0, 16, 16)
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines()[:-1])
    for what in ("training, then samples", "untrained, equal programs", "untrained, equal seconds"):
        assert what in printed
    # Run again, it asks nobody, and finds the same
    asked = [len(policy.seeds) for policy in policies.values()]
    worth(WorthArguments(str(folder), num_samples=4, batch_size=4))
    assert [len(policy.seeds) for policy in policies.values()] == asked
    assert json.loads((folder / "worth" / "worth.json").read_text()) == report


def test_an_answer_without_code_counts_on_both_sides(run):
    """The record of executions has 12 of 16 answers; half of the untrained policy's have code."""
    folder, _ = run
    state = folder / "checkpoint-3" / "trainer_state.json"
    history = json.loads(state.read_text())["log_history"]
    for entry, rate in zip(history, (0.5, 0.25, 0.0), strict=True):
        entry["mle/outcome/no_code_rate"] = rate
    state.write_text(json.dumps({"log_history": history}))
    worth(WorthArguments(str(folder), num_samples=4, batch_size=4))
    trained, untrained, _ = json.loads((folder / "worth" / "worth.json").read_text())["wine"]
    valid = read_run(folder, "run").executions["valid"].sum()
    assert (trained["programs"], trained["valid_rate"]) == (16 + 4, (valid + 4) / 20)
    assert (untrained["programs"], untrained["valid_rate"]) == (20, 0.5)


def test_programs_are_written_as_in_training(run):
    folder, policies = run
    arguments = json.loads((folder / ARGUMENTS_FILE).read_text())
    (folder / ARGUMENTS_FILE).write_text(json.dumps(arguments | {"begin_program": True}))
    policies["other"] = policies["base"]
    worth(WorthArguments(str(folder), "other", num_samples=2, batch_size=64))
    assert [prompt[-1]["role"] for policy in policies.values() for prompt in policy.prompts[:1]] == ["assistant"] * 3


def test_more_programs_later_take_no_more_seconds_each(run):
    """The time between them, which other competitions took, does not count."""
    folder, _ = run
    for count in (2, 4):
        worth(WorthArguments(str(folder), num_samples=count, batch_size=2))
        report = json.loads((folder / "worth" / "worth.json").read_text())
        for result in report["wine"][1:]:
            assert result["seconds"] == result["programs"]


def test_a_program_that_is_tried_again_takes_no_time_of_later_batches(tmp_path):
    log = SampleLog(tmp_path / "x.jsonl", {})
    samples = [Sample("wine", "scratch", number) for number in range(3)]
    for number, sample in enumerate(samples):  # a batch every 2 s, which takes 1 s
        log.written[sample] = Written("text", 1, 1, started_s=2.0 * number, sampling_s=0.5, step="scratch")
        log.elapsed_s[sample] = 2.0 * number + 1.0
    harness = SimpleNamespace(log=log, competition=SimpleNamespace(id="wine"))
    assert seconds_of(harness, 3) == 3.0
    log.elapsed_s[samples[0]] = 7.0
    assert seconds_of(harness, 3) == 4.0


def test_samples_of_another_table_are_not_taken(run, monkeypatch):
    folder, _ = run
    worth(WorthArguments(str(folder), num_samples=1))
    monkeypatch.setattr(module, "content_digest", lambda competition: "of a table that has changed")
    with pytest.raises(ValueError, match=r"trained-3\.jsonl was made with other settings \(content of wine\)"):
        worth(WorthArguments(str(folder), num_samples=1))


def test_a_policy_that_was_trained_further_is_sampled_anew(run):
    folder, policies = run
    worth(WorthArguments(str(folder), num_samples=1))
    make_ended_run(folder, steps=4)
    policies[str(folder)].identity = "trained further"
    worth(WorthArguments(str(folder), num_samples=1))
    assert sorted(path.name for path in (folder / "worth").glob("trained-*.jsonl")) == [
        "trained-3.jsonl",
        "trained-4.jsonl",
    ]


def test_competitions_that_a_resumed_run_left_out(run, caplog):
    folder, _ = run
    make_ended_run(folder, steps=3, competitions=("wine", "diabetes"))
    worth(WorthArguments(str(folder), num_samples=1))
    assert (
        "not compared, because the run ended without them, or they cannot be found from here: 'diabetes'"
        in caplog.messages
    )
    assert json.loads((folder / "worth" / "worth.json").read_text()).keys() == {"policy", "wine"}


def test_a_run_on_a_folder_is_compared_where_the_folder_is_found(run):
    folder, _ = run
    arguments = json.loads((folder / ARGUMENTS_FILE).read_text()) | {"competitions": ["./tables/wine"]}
    (folder / ARGUMENTS_FILE).write_text(json.dumps(arguments))
    with pytest.raises(
        ValueError, match=r"^\./tables/wine cannot be found from here: call this from the folder where"
    ):
        worth(WorthArguments(str(folder), num_samples=1))


def test_the_chance_of_one():
    """None in n leaves a chance of some 30% that n more hold one, and half of them none at all."""
    share, low, high = chance_of_one(0, 500, 500)
    assert share == pytest.approx(1 - math.sqrt(0.5), abs=0.001)
    assert low < 0.01
    assert 0.8 < high < 1
    assert all(chance > 0.99 for chance in chance_of_one(250, 500, 100))
    nothing_happened = []
    for seed in range(400):  # the best of 100 against another 100 of the same
        ours, theirs = np.random.default_rng(seed).random((2, 100))
        nothing_happened.append(chance_of_one((theirs >= ours.max()).sum(), 100, 100)[0])
    assert min(nothing_happened) > 0.25
    assert np.mean(nothing_happened) == pytest.approx(0.53, abs=0.04)


def test_what_cannot_be_compared(run, tmp_path):
    folder, _ = run
    (folder / ARGUMENTS_FILE).unlink()
    with pytest.raises(FileNotFoundError, match="was not made by trl-mle train"):
        worth(WorthArguments(str(folder)))
    unfinished = make_run(tmp_path / "unfinished", steps=1, finished=False)
    (unfinished / ARGUMENTS_FILE).write_text("{}")
    with pytest.raises(ValueError, match="holds no run that has ended"):
        worth(WorthArguments(str(unfinished)))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "ended": true}\n{"step": 4, "reward": -1.0}\n')  # it was resumed, and goes on
    (folder / ARGUMENTS_FILE).write_text("{}")
    with pytest.raises(ValueError, match="holds no run that has ended"):
        worth(WorthArguments(str(folder)))
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="--num_samples must be at least 1"):
        WorthArguments(str(folder), num_samples=0)
    with pytest.raises(ValueError, match="--seed must be from 0 to 4294967295, got -1"):
        WorthArguments(str(folder), seed=-1)
    (folder / ARGUMENTS_FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"arguments\.json is not what this version of trl-mle train writes"):
        worth(WorthArguments(str(folder)))


def test_programs_that_all_failed_because_of_us_are_not_compared(run, monkeypatch):
    folder, _ = run

    def failing(harness, count):
        return [Evaluation(None, outcome="infrastructure") for _ in sample_programs(harness, count)]

    monkeypatch.setattr(module, "sample_programs", failing)
    with pytest.raises(
        ValueError, match="wine could be executed because of a failure of our infrastructure: run the same"
    ):
        worth(WorthArguments(str(folder), num_samples=2, batch_size=64))
