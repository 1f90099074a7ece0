"""Reward functions of any kind, whose columns become evaluations."""

import numpy as np
import pandas as pd
import pytest
import torch
from support import pool_runs
from support.pool_runs import RecordingTrainer, ReplayTrainer

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation
from trl_mle.trainer.foreign import evaluations_from


def test_without_an_outcome_nothing_but_durations_is_read():
    logged = {"duration_s": [1.5, np.nan], "score": ["high", "low"], "quality": ["good", "bad"], "program": [1, 2]}
    assert evaluations_from(logged, 2) == [Evaluation(None, 1.5, outcome=None), Evaluation(None, outcome=None)]
    assert evaluations_from({}, 1) == [Evaluation(None, outcome=None)]


def test_what_a_column_says():
    logged = {"outcome": ["ok", "error"], "score": [0.5, None], "milestones": ["imports,train_data", None]}
    logged |= {"program": ["x = 1", None], "quality": [0.5, None]}
    milestones = ("imports", "train_data")
    assert evaluations_from(logged, 2, objective="mean_rank") == [
        Evaluation(None, None, Score(0.5, True), "ok", milestones, source="x = 1", quality=0.5),
        Evaluation(None, outcome="error"),
    ]
    assert not evaluations_from(logged | {"valid": [False, False]}, 2)[0].valid
    quality = torch.tensor([0.5])
    [only] = evaluations_from({"outcome": ["ok"], "quality": quality}, 1)  # neither a score nor the validity is logged
    assert (only.valid, only.quality, type(only.quality)) == (True, 0.5, float)  # checkpoints hold it as JSON


def test_what_cannot_be_read_is_refused():
    for columns, objective, message in (
        ({"duration_s": [1.0]}, "reward", "got 1 values for 2 completions"),
        ({"duration_s": [1.0, -1]}, "reward", "got -1.0: log seconds"),
        ({}, "max_at_k", "needs log_extra\\('quality'"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluations_from(columns, 2, objective=objective)


class Wrapped(ReplayTrainer):
    """Its reward is a function of a user's, which calls ours."""

    def __init__(self, model, reward, *args, **kwargs):
        def wrapped(*args, **kwargs):
            return reward(*args, **kwargs)

        wrapped.__name__ = "mle_reward"
        super().__init__(model, wrapped, *args, limits=reward.executor.limits, **kwargs)
        self.executor = reward.executor


def test_a_function_around_ours_trains_as_ours_does(program_model, tmp_path):
    runs, tables = [], []
    for cls in (ReplayTrainer, Wrapped):
        trainer = pool_runs.make_trainer(program_model, tmp_path, cls, log_completions=True, max_steps=2)
        trainer.train()
        table = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
        tables.append(table.drop(columns="timestamp", errors="ignore"))
        runs.append((trainer.turns, trainer.solution_prompts.pool.state_dict()))
    assert runs[0] == runs[1]
    assert "program" not in tables[1].columns
    pd.testing.assert_frame_equal(*tables, check_like=True)


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
    expected = [-len(item.source or "") / 1000 for item in seen if not item.infrastructure_failed]
    logged = [value for value in trainer._logs["rewards"]["terse"] if value == value]
    assert len(seen) == 12
    assert logged == pytest.approx(expected)
