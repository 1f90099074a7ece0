"""`trl-mle worth`: a run against sampling the policy that it began with."""

import json
from itertools import combinations
from statistics import fmean

import pytest
from support.scripted_policy import ScriptedPolicy, fenced
from support.training_runs import make_run

from trl_mle.competitions import load_competition
from trl_mle.evaluation import worth as module
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.worth import Found, WorthArguments, verdict, worth
from trl_mle.report.training_run import read_run
from trl_mle.rewards.progress import ARGUMENTS_FILE


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


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A run of 3 steps with 4 programs, whose policy writes trees; the untrained one fails every other time."""
    policies = {
        str(tmp_path / "run"): ScriptedPolicy(lambda prompt, seed: fenced(PROGRAM.format(depth=3)), "trained"),
        "base": ScriptedPolicy(
            lambda prompt, seed: fenced(PROGRAM.format(depth=1 + seed % 3)) if seed % 2 else "no program", "base"
        ),
    }
    monkeypatch.setattr(module, "load_policy", policies.__getitem__)
    monkeypatch.setattr(module, "check_policy", lambda name: None)
    monkeypatch.setattr(SampleLog, "now", lambda log: float(len(log.written)))  # a second per program
    folder = tmp_path / "run"
    make_run(folder, steps=3, programs=4, improve=False)
    arguments = {
        "model_name_or_path": "base", "data_dir": None, "holdout": 0.0, "begin_program": False, "max_prompt_length": 1024,
        "max_completion_length": 256, "program_timeout_s": 30.0, "program_memory_mb": 4096, "threads_per_program": 1,
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
    rows = [json.loads(line) for line in (folder / "worth" / "untrained.jsonl").read_text().splitlines()]
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
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines()[:-1])
    for what in ("training, then samples", "untrained, equal programs", "untrained, equal seconds"):
        assert what in printed
    # Run again, it asks nobody, and finds the same
    asked = [len(policy.seeds) for policy in policies.values()]
    worth(WorthArguments(str(folder), num_samples=4, batch_size=4))
    assert [len(policy.seeds) for policy in policies.values()] == asked
    assert json.loads((folder / "worth" / "worth.json").read_text()) == report


def test_programs_are_written_as_in_training(run):
    folder, policies = run
    arguments = json.loads((folder / ARGUMENTS_FILE).read_text())
    (folder / ARGUMENTS_FILE).write_text(json.dumps(arguments | {"begin_program": True}))
    policies["other"] = policies["base"]
    worth(WorthArguments(str(folder), "other", num_samples=2, batch_size=64))
    assert [prompt[-1]["role"] for policy in policies.values() for prompt in policy.prompts[:1]] == ["assistant"] * 3


@pytest.mark.parametrize(
    ("score", "low", "high", "place"),
    [(3.0, 1.0, 2.0, "ahead of"), (1.5, 1.0, 2.0, "level with"), (0.5, 1.0, 2.0, "behind"), (None, 1.0, 2.0, "behind"),
     (1.0, None, None, "ahead of"), (None, None, None, "level with")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["wine", "diabetes"])  # where more is better, and where less is
def test_a_verdict(score, low, high, place, name):
    competition = load_competition(name)
    sign = 1 if competition.higher_is_better else -1
    low, high = sorted([low * sign, high * sign]) if low else (None, None)
    trained = Found("training", 8, 1.0, 0.5, score and score * sign)
    untrained = Found("untrained, equal programs", 8, 1.0, 0.5, None if low is None else (low + high) / 2, low, high)
    assert verdict(competition, trained, untrained) == f"training is {place} the untrained policy at equal programs"


def test_what_cannot_be_compared(run, tmp_path):
    folder, _ = run
    (folder / ARGUMENTS_FILE).unlink()
    with pytest.raises(FileNotFoundError, match="was not made by trl-mle train"):
        worth(WorthArguments(str(folder)))
    unfinished = make_run(tmp_path / "unfinished", steps=1, finished=False)
    (unfinished / ARGUMENTS_FILE).write_text("{}")
    with pytest.raises(ValueError, match="holds no finished step"):
        worth(WorthArguments(str(unfinished)))
    with pytest.raises(ValueError, match="--num_samples must be at least 1"):
        WorthArguments(str(folder), num_samples=0)
