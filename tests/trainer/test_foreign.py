"""Reward functions of any kind, whose columns become evaluations."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support import pool_runs
from support.pool_runs import COMPETITIONS, RecordingTrainer, ReplayTrainer
from support.replay_executor import ReplayExecutor
from support.toy_trainer import make_trainer, text_reward

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.rewards.columns import columns_of
from trl_mle.trainer import MLEGRPOTrainer
from trl_mle.trainer.foreign import evaluations_from


def test_without_an_outcome_nothing_but_durations_is_read():
    logged = {"duration_s": [1.5, None], "score": ["high", "low"], "quality": ["good", "bad"], "program": [1, 2]}
    assert evaluations_from(logged, 2) == [Evaluation(None, 1.5, outcome=None), Evaluation(None, outcome=None)]
    assert evaluations_from({"duration_s": [np.nan, None]}, 2) == [Evaluation(None, outcome=None)] * 2
    assert evaluations_from({}, 2) == [Evaluation(None, outcome=None)] * 2


def test_what_a_column_says():
    logged = {"outcome": ["ok", "error"], "score": [0.5, None], "milestones": ["imports,train_data", None]}
    logged |= {"program": ["x = 1", None], "quality": [0.5, None]}
    first, second = evaluations_from(logged, 2, objective="mean_rank")
    assert (first.valid, first.score, first.quality) == (True, Score(0.5, True), 0.5)
    assert first.milestones == ("imports", "train_data")
    assert first.source == "x = 1"
    assert second == Evaluation(None, outcome="error")
    assert not evaluations_from(logged | {"valid": [False, False]}, 2)[0].valid


def test_a_quality_is_that_of_a_valid_program():
    """Also where neither a score nor the validity is logged."""
    logged = {"outcome": ["ok", "ok", "error"], "quality": [0.5, None, float("nan")]}
    for objective in ("reward", "max_at_k"):
        found = evaluations_from(logged, 3, objective)
        assert [(item.valid, item.quality) for item in found] == [(True, 0.5), (False, None), (False, None)]
        found = evaluations_from(logged | {"valid": [False, True, False]}, 3, objective)
        assert [item.valid for item in found] == [False, True, False]


def test_columns_of_ours_are_read_as_they_were():
    """What they leave out: the reward, the reason, and the scores on held-out rows."""
    found = [
        Evaluation(0.5, 2.0, Score(0.5, True), "ok", ("imports",), "out", "x = 1", "", 1.0, 0.5, 0.5, False),
        Evaluation(-10.0, reused=False),
        Evaluation(None, outcome="infrastructure", reused=False),
        Evaluation(-9.9, 9.0, None, "timeout", ("imports",), "y", "y()", cpu_s=9.0, queue_wait_s=0.0, reused=True),
    ]
    logged = columns_of(found) | {"program": [item.source for item in found]}
    again = evaluations_from(logged, len(found), objective="max_at_k")
    for item, copy in zip(found, again, strict=True):
        assert copy == replace(item, reward=None, detail="")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"duration_s": [1.0]}, {}, r'^log_extra\("duration_s", ...\) got 1 values for 2 completions: log one per completion'),
        ({"duration_s": [1.0, -1]}, {}, r'^log_extra\("duration_s", ...\) got -1: log seconds, or None where Δt is unknown$'),
        ({"outcome": ["ok"] * 2, "valid": [True]}, {}, r'^log_extra\("valid", ...\) got 1 values for 2 completions'),
        ({}, {"objective": "max_at_k"}, r"^objective='max_at_k' needs the quality of valid completions: log_extra\('quality'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(columns, options, message):
    with pytest.raises(ValueError, match=message) as error:
        evaluations_from(columns, 2, **options)
    assert "\n" not in str(error.value)


class Wrapped(ReplayTrainer):
    """Its reward is a function of a user's, which calls ours."""

    def __init__(self, model, reward, *args, **kwargs):
        def wrapped(*args, **kwargs):
            return reward(*args, **kwargs)

        wrapped.__name__ = "mle_reward"
        super().__init__(model, wrapped, *args, limits=reward.executor.limits, **kwargs)
        self.executor = reward.executor


def test_a_function_around_ours_trains_as_ours_does(program_model, tmp_path):
    runs = {}
    for cls in (ReplayTrainer, Wrapped):
        trainer = pool_runs.make_trainer(
            program_model, tmp_path / cls.__name__, cls, log_completions=True, num_completions_to_print=0, max_steps=2
        )
        trainer.train()
        table = pd.read_parquet(tmp_path / cls.__name__ / "completions" / "completions_00002.parquet")
        runs[cls] = (
            trainer.turns,
            trainer.solution_prompts.pool.state_dict(),
            table.drop(columns="timestamp", errors="ignore"),
        )
    for ours, theirs in zip(runs[ReplayTrainer][:2], runs[Wrapped][:2], strict=True):
        assert ours == theirs
    assert "program" not in runs[Wrapped][2].columns
    pd.testing.assert_frame_equal(runs[ReplayTrainer][2], runs[Wrapped][2], check_like=True)


def test_other_functions_get_evaluations_too(program_model, tmp_path):
    """They stand beside the program's reward, in training and in evaluation."""
    seen = []

    def terse(completions, evaluation, **kwargs):
        seen.extend(evaluation)
        return [-len(item.source or "") / 1000 for item in evaluation]

    class Beside(RecordingTrainer):
        def __init__(self, model, reward, *args, **kwargs):
            super().__init__(model, [reward, terse], *args, **kwargs)

    trainer = pool_runs.make_trainer(program_model, tmp_path, Beside, max_steps=1)
    trainer.train()
    assert len(seen) == 12
    assert all(isinstance(item, Evaluation) for item in seen)
    expected = [-len(item.source or "") / 1000 for item in seen if not item.infrastructure_failed]
    logged = [value for value in trainer._logs["rewards"]["terse"] if value == value]
    assert logged == pytest.approx(expected)


def test_two_rewards_of_ours_are_refused(program_model, tmp_path):
    reward = MLEReward(COMPETITIONS, ReplayExecutor(), show_progress=False)
    with pytest.raises(ValueError, match=r"^reward_funcs has 2 MLERewards: give one, with all competitions$"):
        make_trainer(program_model, tmp_path, [reward, reward, text_reward], MLEGRPOTrainer)
