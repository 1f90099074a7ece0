"""Training with `credit: failed_line`: only the tokens of a completion up to the failure are trained on."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from support import pool_runs
from support.pool_runs import EOS, GROUP_SIZE, GROUPS, RecordingTrainer, ReplayTrainer
from support.replay import GradientRecorder
from support.replay_executor import replay
from support.tiny_models import SUBMIT
from support.toy_trainer import make_trainer, text_reward
from transformers import AutoModelForCausalLM
from trl.experimental.gmpo import GMPOTrainer

from trl_mle.competitions import load_competition
from trl_mle.prompts import extract_code
from trl_mle.trainer import MLEGRPOTrainer


BATCH = GROUPS * GROUP_SIZE
CREDIT = {"credit": "failed_line"}
CASES = {
    "synchronous": {},
    "micro-batches": {"per_device_train_batch_size": BATCH // 4, "gradient_accumulation_steps": 4, "num_iterations": 2},
    "max_at_k": {"objective": "max_at_k", "improvement_bonus": 0.0},
    "mean_rank, linear": {"objective": "mean_rank", "improvement_bonus": 0.0, "duration_weighting": "linear"},
    "two turns": {"max_turns": 2},
    "asynchronous": {"async_rollouts": True, "max_in_flight": 2 * BATCH, "patient": True},
    "asynchronous, inclusion": {
        "async_rollouts": True, "max_in_flight": 2 * BATCH, "patient": True, "duration_weighting": "inclusion",
    },
    "asynchronous, rollouts": {"async_rollouts": True, "max_in_flight": 2 * BATCH, "async_unit": "rollout"},
}  # fmt: skip


class CreditTrainer(RecordingTrainer):
    """Also records the advantages of the completions, and checks those that the loss gets."""

    def _turn(self, rows, step):
        output = super()._turn(rows, step)
        self.turns[-1]["of_completions"] = list(self._logs["advantages"])[-len(rows) :]
        self.turns[-1]["paid"] = list(self._logs["extra"]["weighted_advantage"])[-len(rows) :]
        return output

    def _compute_loss(self, model, inputs):
        assert inputs["advantages"].shape == inputs["completion_ids"].shape
        return super()._compute_loss(model, inputs)


def check_turns(turns, tokenizer):
    """Checks by hand: each token of these completions is a line of the program, or ends it. Counts the cases."""
    met = {"before": 0, "at": 0, "behind": 0, "positive": 0}
    for turn in turns:
        for row, ids in enumerate(turn["completion_ids"]):
            competition = load_competition(turn["prompts"][row].split("\n")[0].removeprefix("Kaggle competition: "))
            program = extract_code(tokenizer.decode(ids, skip_special_tokens=True))
            stderr = replay(program, competition, names_lines=True).stderr if program is not None else ""
            line = int(stderr.partition("line ")[2].partition(",")[0]) if stderr else None
            whole = turn["of_completions"][row] * turn["weights"][row]
            expected = []
            for place in range(len(ids)):
                if line is None or place < line - 1:
                    expected.append(whole)
                    met["before"] += line is not None
                else:
                    expected.append(min(whole, 0.0) if place == line - 1 else 0.0)
                    met["at" if place == line - 1 else "behind"] += 1
                    met["positive"] += whole > 0
            assert turn["advantages"][row][: len(ids)] == pytest.approx(expected, abs=1e-5)
            assert turn["paid"][row] == pytest.approx(sum(expected) / len(expected), abs=1e-5)
    return met


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("synchronous", "two turns", "asynchronous") else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
    ],
)
def test_tokens_behind_the_failure_have_none(program_model, tmp_path, monkeypatch, name):
    monkeypatch.setattr("trl_mle.trainer.rollouts.in_flight.POLL_S", 0.001)
    steps = 4 if name == "micro-batches" else 3
    trainer = pool_runs.make_trainer(
        program_model, tmp_path, CreditTrainer, max_steps=steps, **CREDIT, **CASES[name],
        log_completions=True, num_completions_to_print=0,
    )  # fmt: skip
    trainer.train()
    met = check_turns(trainer.turns, trainer._tokenizer)
    print(f"\n{name}: {met}")
    assert min(met["before"], met["at"], met["behind"]) > 0
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    known = [entry for entry in history if "mle/credit/spared_rate" in entry]
    assert 0 < max(entry["mle/credit/spared_rate"] for entry in known) < 1
    assert {entry["mle/credit/located_rate"] for entry in known if "mle/credit/located_rate" in entry} == {1.0}
    for path in Path(tmp_path).glob("completions/*.parquet"):
        columns = set(pd.read_parquet(path).columns)
        assert "outcome" in columns
        assert not columns & {"failed_line", "program", "quality"}


def test_gradient_is_the_one_by_hand(program_model, tmp_path):
    """Tokens after the failure are not in the loss, but are in the number of tokens."""
    recorder = GradientRecorder()

    class Trainer(CreditTrainer, ReplayTrainer):
        def _generate_and_score_completions(self, inputs):
            self.batch = super()._generate_and_score_completions(inputs)
            return self.batch

    trainer = pool_runs.make_trainer(
        program_model, tmp_path, Trainer, max_steps=1, max_grad_norm=0.0, learning_rate=1e-9, **CREDIT
    )
    trainer.add_callback(recorder)
    trainer.train()
    check_turns(trainer.turns, trainer._tokenizer)
    policy = AutoModelForCausalLM.from_pretrained(program_model, dtype=torch.float32)
    batch, [turn] = trainer.batch, trainer.turns
    loss, tokens = torch.zeros(()), sum(map(len, turn["completion_ids"]))
    for row, completion in enumerate(turn["completion_ids"]):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()]
        logps = policy(torch.cat([prompt, torch.tensor(completion)])[None]).logits[0].log_softmax(-1)
        for place, token in enumerate(completion):
            loss = loss - turn["advantages"][row][place] * logps[len(prompt) + place - 1, token] / tokens
    loss.backward()
    for name, parameter in policy.named_parameters():
        torch.testing.assert_close(recorder.gradients[name], parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss_type", [pytest.param(name, marks=pytest.mark.slow) for name in ("grpo", "dr_grpo", "bnpo", "luspo", "sapo", "cispo")])  # fmt: skip
def test_losses(program_model, tmp_path, loss_type):
    trainer = pool_runs.make_trainer(
        program_model, tmp_path, CreditTrainer, max_steps=2, num_iterations=2, loss_type=loss_type, beta=0.1, **CREDIT
    )
    trainer.train()
    assert all(torch.isfinite(weights).all() for weights in trainer.model.parameters())
    assert check_turns(trainer.turns, trainer._tokenizer)["behind"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"max_turns": 2}, {"async_rollouts": True, "max_in_flight": 2 * BATCH}])
def test_two_processes(program_model, tmp_path, options):
    """Each process has its own rows and widths of completions."""
    runs = {"two": options | CREDIT | {"model": program_model, "steps": 3}}
    records = pool_runs.finish(pool_runs.start(tmp_path, runs, 2), tmp_path, "two")
    different = 0
    for record in records:
        for turn in record["turns"]:
            for ids, advantages in zip(turn["completion_ids"], turn["advantages"], strict=True):
                assert len(advantages) >= len(ids)
                kept = [value for value in advantages[: len(ids)] if value]
                assert len(set(kept)) <= 1  # the completion's advantage; the other tokens have 0
                different += 0 < len(kept) < len(ids)
    assert different > 0
    for name, weights in records[0]["weights"].items():
        assert torch.equal(records[1]["weights"][name], weights)


@pytest.mark.slow
def test_real_programs(program_model, tmp_path):
    """Programs are instrumented and executed: every second one fails in its second line, the others are valid."""
    failing = "import pandas as pd\ny = pd.read_csv('nowhere.csv')\nz = 2\n"

    class Failing(CreditTrainer):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            texts = [failing if row % 2 else SUBMIT.format(i=row) for row in range(len(prompt_ids))]
            return [[*self._tokenizer(text)["input_ids"], EOS] for text in texts], None

    trainer = pool_runs.make_trainer(
        program_model,
        tmp_path,
        Failing,
        max_steps=1,
        real=True,
        competitions=["wine"],
        max_completion_length=256,
        **CREDIT,
    )
    trainer.train()
    [reward] = trainer.reward_funcs
    reward.executor.close()
    [turn] = trainer.turns
    for row, ids in enumerate(turn["completion_ids"]):
        advantages = turn["advantages"][row][: len(ids)]
        trained = trainer._tokenizer.decode([i for i, value in zip(ids, advantages, strict=True) if value < 0])
        assert trained == (failing.partition("z")[0] if row % 2 else "")
        assert set(advantages[-1:]) == {0.0} if row % 2 else min(advantages) > 0


def test_evaluation_is_of_completions(program_model, tmp_path):
    shapes = []

    class Trainer(RecordingTrainer):
        def _compute_loss(self, model, inputs):
            shapes.append((self.model.training, inputs["advantages"].dim()))
            return super()._compute_loss(model, inputs)

    trainer = pool_runs.make_trainer(
        program_model, tmp_path, Trainer, max_steps=1, num_generations_eval=2, per_device_eval_batch_size=4, **CREDIT
    )
    trainer.train()
    trainer.evaluate(trainer.train_dataset.select(range(2)))
    assert set(shapes) == {(True, 2), (False, 1)}


class OtherLoss(MLEGRPOTrainer, GMPOTrainer):
    pass


def test_what_it_cannot_do_is_refused(tiny_model, tmp_path):
    with pytest.raises(ValueError, match="and the loss of GMPOTrainer takes one for each completion") as error:
        make_trainer(tiny_model, tmp_path, cls=OtherLoss, **CREDIT)
    assert "\n" not in str(error.value)

    with pytest.raises(
        ValueError, match="credit='failed_line' does not support tools, environments or rollout functions"
    ):
        make_trainer(tiny_model, tmp_path, trainer_kwargs={"rollout_func": lambda prompts, trainer: {}}, **CREDIT)
    trainer = make_trainer(tiny_model, tmp_path, reward=text_reward, **CREDIT)
    with pytest.raises(ValueError, match="credit='failed_line' needs to know where programs failed"):
        trainer.train()
