"""Asynchronous training, on the rollouts that finished first."""

from itertools import pairwise

import pandas as pd
import pytest
import torch
from support import pool_runs
from support.on_cpu import ON_CPU
from support.pool_runs import GROUP_SIZE, GROUPS, ZERO_2, ReplayTrainer
from support.replay_executor import ReplayExecutor
from support.toy_trainer import text_reward
from transformers import AutoModelForCausalLM

from trl_mle.execution import ProgramFuture
from trl_mle.rewards import MLEReward
from trl_mle.trainer import AsyncMLEGRPOTrainer, MLEGRPOConfig, MLEGRPOTrainer


BATCH = GROUPS * GROUP_SIZE
TWO_BATCHES = {"async_rollouts": True, "max_in_flight": 2 * BATCH}
HALF = {"per_device_train_batch_size": BATCH // 2}
FROM_SCRATCH = {"improve_probability": 0.0}
# AdamW divides by tiny second moments, so that under ZeRO-3 the order of sums would show
ZERO_3 = {
    "deepspeed": ZERO_2 | {"zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
    "optim": "sgd",
    "learning_rate": 0.1,
}


def same(turns):
    """The turns without the columns that only asynchronous training fills."""
    own = ("generation", "rollouts", "staleness")
    return [{name: value for name, value in turn.items() if name not in own} for turn in turns]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="fresh"),  # TRL takes the completions for fresh ones
        # TRL keeps their log-probabilities
        pytest.param({"steps_per_generation": 2, "beta": 0.1} | HALF, id="kept", marks=pytest.mark.slow),
        pytest.param({"objective": "max_at_k"}, id="max_at_k", marks=pytest.mark.slow),
    ],
)
def test_with_one_batch_in_flight_it_is_synchronous_training(program_model, tmp_path, options):
    steps = 3 * options.get("steps_per_generation", 1)  # three generations
    whole = pool_runs.run(program_model, tmp_path / "sync", steps, **options)
    ledger = {"async_rollouts": True, "max_in_flight": BATCH}
    asynchronous = pool_runs.run(program_model, tmp_path / "async", steps, **(options | ledger))
    assert same(asynchronous["turns"]) == same(whole["turns"])
    assert {kind for turn in whole["turns"] for kind in turn["kinds"]} > {"scratch"}
    for name in ("pool", "rng", "losses", "generation"):
        assert asynchronous[name] == whole[name]
    for name, weights in whole["weights"].items():
        assert torch.equal(asynchronous["weights"][name], weights)
    assert {age for turn in asynchronous["turns"] for age in turn["staleness"]} == {0}
    assert asynchronous["ledger"]["in_flight"] == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"deepspeed": ZERO_2}, ZERO_3], ids=["ddp", "zero2", "zero3"])
def test_two_processes(program_model, tmp_path, options):
    """One launch checks the same equality, and rollouts of real programs, which finish at any time."""
    if options:
        pytest.importorskip("deepspeed")
    options = options | {"model": program_model}
    runs = {
        "sync": options | {"steps": 3},
        "async": options | {"steps": 3, "async_rollouts": True, "max_in_flight": BATCH},
        "real": options | TWO_BATCHES | {"steps": 2, "real": True},
    }
    started = pool_runs.start(tmp_path, runs, 2)
    records = {name: pool_runs.finish(started, tmp_path, name) for name in runs}
    for whole, asynchronous in zip(records["sync"], records["async"], strict=True):
        assert same(asynchronous["turns"]) == same(whole["turns"])
        for name, weights in whole["weights"].items():
            assert (asynchronous["weights"][name] - weights).abs().max() <= 1e-5
    first, second = records["real"]
    assert first["ledger"]["in_flight"] == second["ledger"]["in_flight"]
    assert first["mean_duration"] == second["mean_duration"]
    assert first["mean_duration"]
    check_rollouts([first, second], 2)
    assert torch.equal(*(record["weights"]["model.norm.weight"] for record in records["real"]))


def check_rollouts(records, steps):
    """Each sampled rollout was trained on or is in flight, and only once."""
    trained = [number for record in records for turn in record["turns"] for number in turn["rollouts"]]
    ledger = records[0]["ledger"]
    assert len(trained) == steps * BATCH
    assert ledger["sampled"] == (steps + 1) * BATCH
    assert sorted(trained + [rollout["id"] for rollout in ledger["in_flight"]]) == list(range(ledger["sampled"]))


class SnapshotTrainer(ReplayTrainer):
    """Keeps the policy of each generation step, and the batches."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.policies, self.batches = [], []

    def _generate_and_score_completions(self, inputs):
        self.policies.append({name: p.detach().clone() for name, p in self.model.named_parameters()})
        self.batches.append(super()._generate_and_score_completions(inputs))
        return self.batches[-1]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="fresh"),
        pytest.param({"steps_per_generation": 2, "beta": 0.1} | HALF, id="asked", marks=pytest.mark.slow),
        pytest.param({"gradient_accumulation_steps": 2, "beta": 0.1} | HALF, id="accumulated", marks=pytest.mark.slow),
    ],
)
def test_ratios_are_against_the_policy_that_sampled(program_model, tmp_path, options):
    """Programs end at once: from step 2 on, each batch was sampled one step before."""
    options = TWO_BATCHES | FROM_SCRATCH | options | {"max_steps": 4, "learning_rate": 0.02}
    trainer = pool_runs.make_trainer(program_model, tmp_path, SnapshotTrainer, **options)
    trainer.train()
    steps = trainer.args.max_steps // trainer.args.optimizer_steps_per_generation
    ages = [set(turn["staleness"]) for turn in trainer.turns]
    assert ages == [{0}, {1}, {1}, {1}][: len(ages)]
    assert len(ages) >= steps
    policy = AutoModelForCausalLM.from_pretrained(program_model, dtype=torch.float32)
    moved = 0.0
    for step, batch in enumerate(trainer.batches):
        logps = []
        for sampled_by in (max(0, step - 1), step):
            policy.load_state_dict(trainer.policies[sampled_by], strict=False)
            logps.append(completion_logps(policy, batch))
        mask = batch["completion_mask"].bool()
        assert (batch["old_per_token_logps"] - logps[0])[mask].abs().max() < 1e-4
        moved = max(moved, (logps[1] - logps[0])[mask].abs().max())
        if trainer.args.beta:
            policy.load_state_dict(AutoModelForCausalLM.from_pretrained(program_model).state_dict())
            assert (batch["ref_per_token_logps"] - completion_logps(policy, batch))[mask].abs().max() < 1e-4
    assert moved > 0.01


def completion_logps(policy, batch):
    """Log-probabilities of the completions, row by row and without padding."""
    logps = torch.zeros(batch["completion_ids"].shape)
    for i in range(len(logps)):
        prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
        completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()]
        with torch.no_grad():
            rows = policy(torch.cat([prompt, completion])[None]).logits[0].log_softmax(-1)
        for k, token in enumerate(completion):
            logps[i, k] = rows[len(prompt) + k - 1, token]
    return logps


def test_slow_groups_are_overtaken_and_trained_on_later(program_model, tmp_path, monkeypatch):
    monkeypatch.setattr("trl_mle.trainer.rollouts.in_flight.POLL_S", 0.001)
    options = {"patient": True, "async_rollouts": True, "max_in_flight": 3 * BATCH, "log_completions": True}
    trainer = pool_runs.make_trainer(program_model, tmp_path, max_steps=4, seed=49, **options)
    trainer.train()
    ledger, turns = trainer.rollouts.ledger, [turn["rollouts"] for turn in trainer.turns]
    assert ledger.sampled == 6 * BATCH
    assert sorted([number for turn in turns for number in turn] + list(ledger.in_flight)) == list(range(6 * BATCH))
    assert trainer.solution_prompts.generation == 6  # the first step sampled three
    assert any(turn[-1] > after[0] for turn, after in pairwise(turns))
    assert max(age for turn in trainer.turns for age in turn["staleness"]) > 1
    for turn in turns:
        assert turn == sorted(turn)
        assert turn == [first + i for first in turn[::GROUP_SIZE] for i in range(GROUP_SIZE)]
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    for turn, entry, path in zip(trainer.turns, history, sorted(tmp_path.glob("completions/*.parquet")), strict=True):
        table = pd.read_parquet(path)
        assert list(table["rollout_id"]) == turn["rollouts"]
        assert (table["duration_weight"] * table["advantage"]).tolist() == pytest.approx(turn["advantages"], abs=1e-5)
        assert entry["mle/async/in_flight"] == 2 * BATCH
        assert entry["mle/async/staleness/max"] == max(turn["staleness"])


def test_no_program_outlives_training(program_model, tmp_path, monkeypatch):
    """Not even one that an exception ends: in a notebook, it would keep its slot."""
    trainer = pool_runs.make_trainer(program_model, tmp_path, max_steps=1, **TWO_BATCHES, **FROM_SCRATCH)
    submitted = []

    def submit(program, competition, submit=trainer.reward.executor.submit):
        later = ProgramFuture() if len(submitted) >= BATCH else submit(program, competition)
        submitted.append(later)
        return later

    trainer.reward.executor.submit = submit
    monkeypatch.setattr(trainer, "compute_loss", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    assert len(submitted) > BATCH
    assert all(future.done() for future in submitted)
    assert trainer.rollouts.state_dict()["in_flight"]


def test_what_it_cannot_do_is_refused(program_model, tmp_path):
    class Own(MLEReward):
        def evaluations(self, completions, competition=None, **kwargs):
            return super().evaluations(completions, competition)

    args = MLEGRPOConfig(str(tmp_path), **ON_CPU, **FROM_SCRATCH, async_rollouts=True)
    own = Own(["wine"], ReplayExecutor())
    for cls, reward, message in (
        (MLEGRPOTrainer, own, "async_rollouts=True is for AsyncMLEGRPOTrainer"),
        (AsyncMLEGRPOTrainer, text_reward, "async_rollouts needs an MLEReward"),
        (AsyncMLEGRPOTrainer, own, "instead of `evaluations`"),
    ):
        with pytest.raises(ValueError, match=message):
            cls(program_model, reward, args, competitions=["wine"])


@pytest.mark.slow
def test_rollouts_of_a_checkpoint_are_not_lost_silently(program_model, tmp_path):
    saved = {"save_strategy": "steps", "save_steps": 2}
    pool_runs.run(program_model, tmp_path, 2, **TWO_BATCHES, **FROM_SCRATCH, **saved)
    one = TWO_BATCHES | {"max_in_flight": TWO_BATCHES["max_in_flight"] // 2}
    with pytest.raises(ValueError, match="raise max_in_flight to two batches"):
        pool_runs.run(program_model, tmp_path / "resumed", 3, str(tmp_path / "checkpoint-2"), **one, **FROM_SCRATCH)
