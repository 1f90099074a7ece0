"""What a user adds to the trainer."""

import json

import pytest
import torch
from support import pool_runs
from support.pool_runs import GROUP_SIZE, GROUPS, RecordingTrainer

from trl_mle.trainer import Part


HINT = [{"role": "user", "content": "Import pandas!"}]


class Hints(Part):
    """Asks the first group something else, trains on the others only, and counts what it saw."""

    name = "hints"

    def __init__(self):
        self.seen, self.steps, self.restored = 0, [], None

    def choose(self, rows, first):
        return [row | {"prompt": HINT} if first + i < GROUP_SIZE else row for i, row in enumerate(rows)]

    def weights(self, completions):
        return torch.tensor([0.0 if i < GROUP_SIZE else 2.0 for i in range(len(completions))])

    def advantages(self, completions, rewards):
        assert rewards.shape == (len(completions), 1)
        assert [item.weight for item in completions[:GROUP_SIZE]] == [0.0] * GROUP_SIZE
        return torch.arange(len(completions), dtype=torch.float64)

    def observe(self, completions, step):
        assert all(item.evaluation.outcome for item in completions)
        self.seen += len(completions)
        self.steps.append(step)

    def metrics(self):
        return {"hints/seen": float(self.seen)}

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = self.restored = state["seen"]


class WithHints(RecordingTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.hints = Hints()
        self.parts += (self.hints,)


def make_trainer(model, folder, **options):
    options |= {"improve_probability": 0.0, "duration_weighting": "none"}
    return pool_runs.make_trainer(model, folder, WithHints, save_strategy="steps", save_steps=1, **options)


@pytest.mark.parametrize("options", [{}, {"async_rollouts": True}], ids=["sync", "async"])
def test_a_part_acts_at_its_hooks(program_model, tmp_path, options):
    trainer = make_trainer(program_model, tmp_path, max_steps=2, **options)
    trainer.train()
    batch = GROUPS * GROUP_SIZE
    for turn in trainer.turns:
        asked = turn["prompts"] if not options.get("async_rollouts") else trainer.turns[0]["prompts"]
        assert asked[:GROUP_SIZE] == [HINT[0]["content"]] * GROUP_SIZE
        assert HINT[0]["content"] not in asked[GROUP_SIZE:batch]
        expected = [0.0 if i < GROUP_SIZE else 2.0 * i for i in range(batch)]
        assert turn["advantages"] == pytest.approx(expected)
        assert turn["weights"] == [0.0] * GROUP_SIZE + [2.0] * (batch - GROUP_SIZE)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.hints.steps == [1, 2]
    assert trainer.hints.seen >= 2 * batch
    assert logs[-1]["mle/hints/seen"] == trainer.hints.seen
    assert json.loads((tmp_path / "checkpoint-2" / "hints.json").read_text()) == {"seen": trainer.hints.seen}


def test_a_part_goes_on_after_a_resume(program_model, tmp_path):
    make_trainer(program_model, tmp_path, max_steps=1).train()
    resumed = make_trainer(program_model, tmp_path, max_steps=2)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    batch = GROUPS * GROUP_SIZE
    assert (resumed.hints.restored, resumed.hints.seen, resumed.hints.steps) == (batch, 2 * batch, [2])


def test_by_default_a_part_does_nothing(program_model, tmp_path):
    class Idle(Part):
        name = "idle"

    class WithIdle(RecordingTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.parts += (Idle(),)

    plain, idle = (
        pool_runs.run(program_model, tmp_path / cls.__name__, 1, cls=cls) for cls in (RecordingTrainer, WithIdle)
    )
    assert idle["turns"] == plain["turns"]
    assert idle["losses"] == plain["losses"]


class Wrong(Part):
    name = "wrong"

    def __init__(self, hook, values):
        setattr(self, hook, lambda completions, *args: values)


@pytest.mark.parametrize("hook", ["weights", "advantages"])
@pytest.mark.parametrize("values", [torch.full((12,), torch.nan), [1.0] * 4, torch.ones(12, 1)])
def test_what_would_destroy_the_policy_is_refused(program_model, tmp_path, hook, values):
    trainer = pool_runs.make_trainer(program_model, tmp_path, max_steps=1)
    trainer.parts += (Wrong(hook, values),)
    with pytest.raises(
        ValueError, match=rf"^the part 'wrong' must give each of 12 completions finite {hook}, not \["
    ) as error:
        trainer.train()
    assert "\n" not in str(error.value)
    assert trainer.state.global_step == 0


def test_a_part_needs_a_name_of_its_own(program_model, tmp_path):
    """Its state would be lost, or overwrite another's, at the first checkpoint."""

    trainer = pool_runs.make_trainer(program_model, tmp_path)
    own = trainer.parts
    part = Wrong("metrics", {})
    trainer.parts = (*own, part)
    for part.name in ("", "weighting", "config", "a/b"):
        with pytest.raises(ValueError, match=rf"^Wrong.name is '{part.name}': give each part a name of its own"):
            trainer.train()
