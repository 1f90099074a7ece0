"""Best of N during training, which it must not disturb."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from support import pool_runs
from support.checkpointing import checkpointing_of
from support.pool_runs import COMPETITIONS, StopAfter, make_trainer
from support.replay_executor import ReplayExecutor
from transformers import TrainerState

from trl_mle.competitions import Score, TaskSet, load_competition
from trl_mle.evaluation import summarize
from trl_mle.evaluation.best_of_n_callback import BestOfNCallback
from trl_mle.evaluation.harness import sample_seeds
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.instrumentation import AstInstrumenter, Completion
from trl_mle.rewards import Evaluation, MLEReward


N = 7
LINES = [f"x{i} = {i}" for i in range(24)]


def run(model, folder, every=None, sample=None):
    trainer = make_trainer(model, folder, max_steps=2)
    trainer.add_callback(StopAfter(2))
    if every is not None:
        reward = MLEReward(COMPETITIONS, ReplayExecutor(), AstInstrumenter(), show_progress=False)
        trainer.add_callback(BestOfNCallback(trainer, reward, N, every, batch_size=4))
    trainer.train()
    return pool_runs.record(trainer), [entry for entry in trainer.state.log_history if "loss" in entry]


@pytest.fixture
def programs(monkeypatch):
    """Lets the policy sample, and then replaces its samples by programs that depend on their seeds."""
    real = TransformersPolicy.sample

    def sample(self, prompts, max_new_tokens, seeds):
        assert len(real(self, prompts, max_new_tokens, seeds)) == len(prompts) <= 4
        return [Completion(f"```python\n{LINES[seed % len(LINES)]}\n```") for seed in seeds]

    monkeypatch.setattr(TransformersPolicy, "sample", sample)


@pytest.mark.slow
def test_training_goes_on_as_without_it(program_model, tmp_path, programs):
    with_it, log = run(program_model, tmp_path / "with", every=1)
    without, plain = run(program_model, tmp_path / "without")
    assert with_it["turns"] == without["turns"]
    assert (with_it["pool"], with_it["losses"], with_it["rng"]) == (without["pool"], without["losses"], without["rng"])
    assert all(torch.equal(weight, without["weights"][name]) for name, weight in with_it["weights"].items())
    assert not any(name.startswith("mle/eval/") for entry in plain for name in entry)

    reward = MLEReward(COMPETITIONS, ReplayExecutor(), AstInstrumenter(), show_progress=False)
    for name in COMPETITIONS:
        seeds = sample_seeds(1_000_000, load_competition(name), range(N))
        items = [(f"```python\n{LINES[seed % len(LINES)]}\n```", name) for seed in seeds]
        expected = summarize(reward.evaluate_many(items), load_competition(name).higher_is_better)
        assert 0 < expected.num_valid < N
        for entry in log:  # fixed prompts, fixed seeds
            assert entry[f"mle/eval/{name}/valid_rate"] == pytest.approx(expected.valid_rate)
            assert entry[f"mle/eval/{name}/best_of_n"] == expected.best_score
            assert entry[f"mle/eval/{name}/mean_score"] == pytest.approx(expected.mean_score)
            assert f"mle/eval/{name}/untrained_valid_rate" not in entry  # unknown, because no milestone was seen


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_stays_as_asked(program_model, tmp_path, use_reentrant):
    config = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": use_reentrant}}
    trainer = make_trainer(program_model, tmp_path, max_steps=2, **config)
    reward = MLEReward(COMPETITIONS, ReplayExecutor(), AstInstrumenter(), show_progress=False)
    trainer.add_callback(BestOfNCallback(trainer, reward, num_samples=2, every=1))
    seen, as_asked = checkpointing_of(trainer)
    assert seen == as_asked


@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_the_best_is_reported_on_the_held_out_rows(monkeypatch, holdout):
    """It is chosen on the other rows; next to it is the best chosen by and scored on all rows."""
    scores = [Score(0.9, True, None, 0.5, 0.7), Score(0.6, True, None, 0.9, 0.8)]
    if not holdout:
        scores = [Score(score.full, True) for score in scores]
    wine = load_competition("wine", holdout=holdout)
    trainer = SimpleNamespace(competitions=TaskSet([wine]), _metrics={"train": defaultdict(list)})
    evaluations = [Evaluation(0.0, 1.0, score, "ok") for score in scores]
    monkeypatch.setattr(BestOfNCallback, "sample", lambda self, competitions: [evaluations])
    BestOfNCallback(trainer, None, 2, every=1).on_step_end(None, TrainerState(global_step=1), None)
    found = {name.removeprefix("mle/eval/"): values for name, values in trainer._metrics["train"].items()}
    if holdout:
        expected = {"best_of_n": [0.5], "best_of_n_by_test": [0.8], "mean_score": [0.7]}
    else:
        expected = {"best_of_n": [0.8], "mean_score": [0.75]}
    assert found == {"valid_rate": [1.0]} | {name: pytest.approx(values) for name, values in expected.items()}


def test_between_times_nothing_happens():
    callback = BestOfNCallback(None, None, N, every=2)
    callback.on_step_end(None, TrainerState(global_step=3), None)
    with pytest.raises(AttributeError):  # now it evaluates, but has no trainer
        callback.on_step_end(None, TrainerState(global_step=4), None)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="num_samples=0 and every=1 must be at least 1"):
        BestOfNCallback(None, None, 0, 1)
