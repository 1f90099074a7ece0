"""A run whose valid programs vanish goes back, and one that finds nothing new says so."""

import random

import pytest
import torch
from accelerate import PartialState
from support.toy_trainer import equal, make_trainer, weights_of
from transformers import TrainerCallback, TrainerControl

from trl_mle.rewards import Evaluation
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.rescue import Rescue


STEPS = 9
VALID = [3, 3, 3, 3]  # of four programs, in the first steps; in later ones, none is valid


def outcomes(completions, log_extra, trainer_state, **kwargs):
    """Each valid program has a score of its own."""
    step = trainer_state.global_step
    valid = [step < len(VALID) and i % 4 < VALID[step] for i in range(len(completions))]
    scores = [step + sum(map(ord, item[0]["content"])) % 97 / 100 for item in completions]
    log_extra("outcome", ["ok" if item else "error" for item in valid])
    log_extra("quality", [score if item else None for item, score in zip(valid, scores, strict=True)])
    return [score if item else -10.0 + score / 10 for item, score in zip(valid, scores, strict=True)]


class Weights(TrainerCallback):
    """The weights at the beginning of each step, which sample its programs."""

    def __init__(self):
        self.of = {}

    def on_step_begin(self, args, state, control, model, **kwargs):
        self.of[state.global_step + 1] = weights_of(model)


def make(tiny_model, folder, **config):
    config = {"max_steps": STEPS, "objective": "mean_rank", "lr_scheduler_type": "constant"} | config
    return make_trainer(tiny_model, folder, outcomes, rows=4 * STEPS, **config)


@pytest.fixture(scope="module")
def whole(tiny_model, tmp_path_factory):
    """A whole run, with a checkpoint of each step."""
    weights = Weights()
    trainer = make(tiny_model, tmp_path_factory.mktemp("whole"), save_strategy="steps", save_steps=1)
    trainer.add_callback(weights)
    trainer.train()
    return trainer, weights.of


def test_goes_back_to_the_last_weights_that_wrote_as_many_as_before(whole):
    trainer, weights = whole
    # Six are valid in each of four steps. After step 7, none of the programs of three steps is valid
    assert not equal(weights[7], weights[4])
    assert equal(weights[8], weights[4])
    assert not equal(weights[9], weights[4])  # training goes on
    rates = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
    assert rates[-1] == rates[0] / 2
    # The optimizer began anew: it has seen the steps 8 and 9
    assert {int(state["step"]) for state in trainer.optimizer.state.values()} == {2}
    assert [entry["mle/rescues"] for entry in trainer.state.log_history if "mle/rescues" in entry][-1] == 1


@pytest.mark.parametrize("step", [5, 7])
def test_resumes_exactly(tiny_model, whole, tmp_path, step):
    trainer, _ = whole
    again = make(tiny_model, tmp_path)
    again.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-{step}")
    assert again.rescue.metrics()["rescues"] == 1
    assert equal(weights_of(again.model), weights_of(trainer.model))


def test_never_goes_back_to_a_step_that_failed(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "VALID", [0, 4, 4, 1])  # the last three are the best three
    trainer = make(tiny_model, tmp_path)
    trainer.add_callback(weights := Weights())
    trainer.train()
    assert equal(weights.of[7], weights.of[3])


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_goes_back_to_weights_that_wrote_valid_programs(staleness):
    """Where each task comes once, and the weights after 20 steps write none."""
    PartialState()  # for its warnings
    rescue = Rescue(model := torch.nn.Linear(1, 1), stops_when_stale=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for step in range(1, 40):
        torch.nn.init.constant_(model.weight, step - 1)
        qualities = [i if i % 2 and step - 1 - staleness < 20 else None for i in range(16)]
        items = [(f"{step} {i}", Evaluation(0.0, quality=quality)) for i, quality in enumerate(qualities)]
        rescue.observe(
            [Completion(name, "scratch", None, None, item, staleness=staleness) for name, item in items], step
        )
        rescue.on_step_end(None, None, TrainerControl(), optimizer=optimizer, lr_scheduler=None)
        if rescue.metrics()["rescues"]:
            break
    assert 15 < model.weight.item() < 20


def test_only_fewer_than_expected_are_a_loss():
    """Neither a hard competition, nor programs sampled before weights were put back."""
    PartialState()  # for its warnings
    rescue, rng = Rescue(torch.nn.Linear(1, 1), stops_when_stale=False), random.Random(0)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    def step(number, valid=1.0, staleness=None):
        name, share = f"task {number % 8}", valid * (0.9 if number % 8 < 2 else 0.05)
        qualities = [rng.random() if rng.random() < share else None for _ in range(64)]
        evaluations = [Evaluation(0.0, quality=quality) for quality in qualities]
        items = [Completion(name, "scratch", None, None, item, staleness=staleness) for item in evaluations]
        rescue.observe(items, number)
        rescue.on_step_end(None, None, TrainerControl(), optimizer=optimizer, lr_scheduler=None)
        return rescue.metrics()["rescues"]

    assert [step(number) for number in range(80)] == [0.0] * 80
    assert rescue.state_dict()["kept_step"] > 70
    lost = next(number for number in range(80, 100) if step(number, valid=0.0))
    assert lost < 90
    assert [step(number, valid=0.0, staleness=number - lost) for number in range(lost + 1, lost + 9)] == [1.0] * 8
    assert [step(number) for number in range(100, 140)] == [1.0] * 40


def test_ends_when_nothing_is_new(tiny_model, tmp_path, caplog):
    trainer = make(tiny_model, tmp_path, max_steps=20, stop_when_stale=True)
    trainer.train()
    assert trainer.state.global_step == len(VALID) + 8
    assert "no new score in 8 steps: training ends" in caplog.text
