"""Training that replaces groups without signal."""

import random
from pathlib import Path

import pytest
import torch
from support import pool_runs
from support.on_cpu import ON_CPU
from support.pool_runs import COMPETITIONS, EOS, GROUP_SIZE, GROUPS, LINES, RecordingTrainer
from support.replay_executor import ReplayExecutor
from transformers import PrinterCallback

from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


ASYNC = {"async_rollouts": True, "max_in_flight": 2 * GROUPS * GROUP_SIZE}


class CopyingTrainer(RecordingTrainer):
    """In half of all groups, replacements included, all members have the same completion."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls, self.slugs = 0, []

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        start = self.accelerator.process_index * len(prompt_ids)
        completions = []
        for row in range(start, start + len(prompt_ids)):
            group = row // GROUP_SIZE
            copies = random.Random(f"{self.calls}-{group}").random() < 0.5
            rng = random.Random(f"{self.calls}-{group if copies else row}")
            first = len(self._tokenizer) - LINES
            completions.append([first + rng.randrange(LINES) for _ in range(rng.randrange(6))] + [EOS])
        self.calls += 1
        return completions, None


def train(model, folder, steps=4, cls=CopyingTrainer, **options):
    trainer = pool_runs.make_trainer(model, folder, cls, **options)
    trainer.add_callback(pool_runs.StopAfter(steps))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def without_signal(turn):
    """Whether the rewards of each group of a turn are all alike; failures of our infrastructure have none."""
    groups = [turn["rewards"][i : i + GROUP_SIZE] for i in range(0, len(turn["rewards"]), GROUP_SIZE)]
    return [len({reward for reward in group if reward is not None}) < 2 for group in groups]


@pytest.mark.parametrize(
    "options", [pytest.param({}, id="sync"), pytest.param(ASYNC, id="async", marks=pytest.mark.slow)]
)
def test_groups_without_signal_are_replaced(program_model, tmp_path, options):
    plain = train(program_model, tmp_path / "plain", **options)
    assert any(any(without_signal(turn)) for turn in plain.turns)
    assert not [name for name in plain.state.log_history[0] if "zero_signal" in name]

    trainer = train(program_model, tmp_path / "skip", skip_zero_signal=20, **options)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert not any(any(without_signal(turn)) for turn in trainer.turns)
    assert {len(turn["rewards"]) for turn in trainer.turns} == {GROUPS * GROUP_SIZE}
    assert {entry["mle/zero_signal/trained"] for entry in logs} == {0}
    skipped = [entry["mle/zero_signal/skipped"] for entry in logs]
    assert sum(skipped) > 0
    ledger = trainer.rollouts.ledger
    assert ledger.skipped == sum(skipped) * GROUP_SIZE
    assert ledger.sampled == ledger.trained + ledger.skipped + len(ledger.in_flight)
    # All executed programs count, whether they are trained on or not
    failed = sum(reward is None for turn in trainer.turns for reward in turn["rewards"])
    assert sum(entry["mle/programs"] for entry in logs) > ledger.trained - failed
    assert ("mle/async/in_flight" in logs[0]) == bool(options)


def test_extra_generations_are_bounded(program_model, tmp_path):
    """After these, groups without signal are trained on, as without the option."""
    trainer = train(program_model, tmp_path, skip_zero_signal=1)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert max(entry["mle/zero_signal/generations"] for entry in logs) == 1
    trained = [sum(without_signal(turn)) for turn in trainer.turns]
    assert trained == [entry["mle/zero_signal/trained"] for entry in logs]
    assert 0 < sum(trained) < sum(entry["mle/zero_signal/skipped"] for entry in logs) + sum(trained)


def test_nothing_changes_where_all_groups_have_signal(program_model, tmp_path):
    whole = pool_runs.run(program_model, tmp_path / "plain", 3)
    assert not any(any(without_signal(turn)) for turn in whole["turns"])
    skipping = pool_runs.run(program_model, tmp_path / "skip", 3, skip_zero_signal=2)
    for name in ("turns", "pool", "rng", "losses", "generation"):
        assert skipping[name] == whole[name]
    for name, weights in whole["weights"].items():
        assert torch.equal(skipping["weights"][name], weights)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, ASYNC], ids=["sync", "async"])
def test_two_processes_skip_alike(program_model, tmp_path, options):
    """They act like one process: the second group spans both."""
    options = options | {"skip_zero_signal": 3, "model": program_model}
    options |= {"steps": 5, "cls": CopyingTrainer}
    started = pool_runs.start(tmp_path, {"two": options}, 2)
    first, second = pool_runs.finish(started, tmp_path, "two")
    one = pool_runs.run(output_dir=tmp_path / "one", **options)
    assert first["ledger"] == second["ledger"]
    assert first["ledger"]["skipped"] > 0
    for both, alone in zip(zip(first["turns"], second["turns"], strict=True), one["turns"], strict=True):
        for name in ("prompts", "completion_ids", "kinds"):
            assert both[0][name] + both[1][name] == alone[name]
        assert both[0]["rewards"] == both[1]["rewards"] == alone["rewards"]


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({"skip_zero_signal": 1}, {"reward_funcs": len}, "^skip_zero_signal needs an MLEReward"),
        ({"skip_zero_signal": 1}, {"another": len}, "^skip_zero_signal judges groups by their programs"),
        ({"skip_zero_signal": 1}, {"rollout_func": len}, "^skip_zero_signal does not support tools"),
    ],
)
def test_what_does_not_go_together_is_refused(program_model, tmp_path, options, more, message):
    reward = MLEReward(COMPETITIONS, ReplayExecutor(), show_progress=False)
    another = more.pop("another", None)
    more = {"competitions": COMPETITIONS, "reward_funcs": [reward, another] if another else reward} | more
    args = MLEGRPOConfig(str(tmp_path), **(ON_CPU | options))
    with pytest.raises(ValueError, match=message) as error:
        MLEGRPOTrainer(program_model, args=args, **more)
    assert "\n" not in str(error.value)
    assert not list(Path(tmp_path).iterdir())
