"""Episodes of several turns: in each, a completion improves its own solution."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from support import pool_runs
from support.pool_runs import GROUP_SIZE, GROUPS, ReplayTrainer
from support.replay import GradientRecorder
from support.replay_executor import replay
from support.toy_trainer import make_trainer
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_mle.competitions import load_competition
from trl_mle.prompts import extract_code
from trl_mle.trainer.step import join_outputs


ROWS = GROUPS * GROUP_SIZE


def test_join_outputs_pads_prompts_on_the_left_and_completions_on_the_right():
    def output(prompts, completions, items):
        return {
            "prompt_ids": torch.tensor(prompts),
            "prompt_mask": torch.tensor(prompts).clamp(max=1),
            "completion_ids": torch.tensor(completions),
            "completion_mask": torch.tensor(completions).clamp(max=1),
            "old_per_token_logps": -0.5 * torch.tensor(completions).float(),
            "advantages": torch.tensor([1.0, 2.0]) * items,
            "num_items_in_batch": torch.tensor(items),
        }

    turns = [output([[5], [6]], [[3, 4, 7], [8, 0, 0]], 4), output([[0, 2], [1, 2]], [[9], [3]], 2)]
    joined = join_outputs(turns, pad_token_id=99)
    assert joined["prompt_ids"].tolist() == [[99, 5], [99, 6], [0, 2], [1, 2]]
    assert joined["prompt_mask"].tolist() == [[0, 1], [0, 1], [0, 1], [1, 1]]
    assert joined["completion_ids"].tolist() == [[3, 4, 7], [8, 0, 0], [9, 99, 99], [3, 99, 99]]
    assert joined["completion_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert joined["old_per_token_logps"][2:].tolist() == [[-4.5, 0, 0], [-1.5, 0, 0]]
    assert joined["advantages"].tolist() == [4, 8, 2, 4]
    assert joined["num_items_in_batch"] == 6
    assert {name: value.dtype for name, value in joined.items()} == {n: v.dtype for n, v in turns[0].items()}
    assert join_outputs(turns[:1], 99) is turns[0]


class JoiningTrainer(ReplayTrainer):
    """Also records the batches of all turns."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches = []

    def _generate_and_score_completions(self, inputs):
        self.batches.append(super()._generate_and_score_completions(inputs))
        return self.batches[-1]


@pytest.fixture(scope="module", params=[pytest.param(2, marks=pytest.mark.slow), 3])
def trained(request, program_model, tmp_path_factory):
    """A trainer after two generations, in micro-batches, with the gradients of its second step."""
    folder = tmp_path_factory.mktemp("turns")
    recorder = GradientRecorder()
    trainer = pool_runs.make_trainer(
        program_model,
        folder,
        JoiningTrainer,
        max_turns=request.param,
        max_steps=2,
        learning_rate=1e-9,  # so small that the model stays the same in both steps
        per_device_train_batch_size=ROWS // 2,
        gradient_accumulation_steps=2,
        max_grad_norm=0.0,
        log_completions=True,
        num_completions_to_print=0,
        loss_type="dapo" if request.param == 2 else "grpo",
    )
    trainer.add_callback(recorder)
    trainer.train()
    trainer.gradients = recorder.gradients
    return trainer


def programs(trainer, turn):
    texts = trainer._tokenizer.batch_decode(turn["completion_ids"], skip_special_tokens=True)
    return [extract_code(text) for text in texts]


def generations(trainer):
    """The turns of each generation."""
    numbers = sorted({turn["generation"] for turn in trainer.turns})
    return [[turn for turn in trainer.turns if turn["generation"] == number] for number in numbers]


def competition_of(prompt):
    return load_competition(prompt.split("\n")[0].removeprefix("Kaggle competition: "))


def test_each_turn_shows_the_last_valid_solution_of_its_episode_or_the_root_again(trained):
    first, second = generations(trained)
    shown = set()
    for root, *later in (first, second):
        own = [None] * ROWS
        for group in range(GROUPS):
            assert len(set(root["prompts"][group * GROUP_SIZE : (group + 1) * GROUP_SIZE])) == 1
        assert len(later) == trained.args.max_turns - 1
        for before, turn in zip([root, *later], later, strict=False):
            for row, program in enumerate(programs(trained, before)):
                competition = competition_of(before["prompts"][row])
                if program is not None and (submission := replay(program, competition).submission) is not None:
                    assert competition.grade(submission).valid
                    own[row] = program
                if own[row] is None:
                    assert turn["prompts"][row] == root["prompts"][row]
                    assert turn["kinds"][row] == root["kinds"][row]
                else:
                    assert f"```python\n{own[row]}\n```" in turn["prompts"][row]
                    assert turn["kinds"][row] == "improve"
                shown.add(own[row] is None)
    assert shown == {True, False}


def test_each_turn_has_its_own_weights_and_advantages(trained):
    for turn in trained.turns:
        competitions = [competition_of(prompt) for prompt in turn["prompts"]]
        results = [
            replay(program, competition) if program is not None else None
            for program, competition in zip(programs(trained, turn), competitions, strict=True)
        ]
        durations = [result.duration_s if result is not None else None for result in results]
        for row in range(ROWS):
            same = [durations[i] for i in range(ROWS) if competitions[i].id == competitions[row].id]
            known = [duration for duration in same if duration is not None]
            weight = durations[row] * len(known) / sum(known) if durations[row] is not None else 1.0
            assert turn["weights"][row] == pytest.approx(weight)
            first = row - row % GROUP_SIZE
            group = turn["rewards"][first : first + GROUP_SIZE]
            rewards = torch.tensor([math.nan if reward is None else reward for reward in group])
            judged = rewards[~rewards.isnan()]
            advantage = (rewards[row % GROUP_SIZE] - judged.mean()) / (judged.std() + 1e-4)
            expected = 0.0 if math.isnan(advantage) else weight * advantage.item()
            assert turn["advantages"][row] == pytest.approx(expected, abs=1e-4)


def test_the_batch_holds_all_turns_whole(trained):
    tokenizer = trained._tokenizer
    for turns, batch in zip(generations(trained), trained.batches, strict=True):
        rows = [(turn, row) for turn in turns for row in range(ROWS)]
        assert len(batch["prompt_ids"]) == len(rows) == ROWS * trained.args.max_turns
        assert len({len(value) for value in batch.values() if value.dim()}) == 1
        assert batch["num_items_in_batch"] == batch["completion_mask"].sum()
        for index, (turn, row) in enumerate(rows):
            prompt = batch["prompt_ids"][index][batch["prompt_mask"][index].bool()]
            assert turn["prompts"][row] in tokenizer.decode(prompt)
            assert batch["prompt_mask"][index].diff().min() >= 0  # padded on the left
            completion = batch["completion_ids"][index][batch["completion_mask"][index].bool()]
            assert completion.tolist() == turn["completion_ids"][row]
            assert batch["advantages"][index] == turn["advantages"][row]


def test_loss_and_gradient_are_the_ones_by_hand(trained, program_model):
    """-Σ w·Â·log π over the completions of all turns, sequence by sequence, without padding."""
    tokenizer = AutoTokenizer.from_pretrained(program_model)
    policy = AutoModelForCausalLM.from_pretrained(program_model, dtype=torch.float32)
    turns = generations(trained)[-1]
    completions = [ids for turn in turns for ids in turn["completion_ids"]]
    loss, value = torch.zeros(()), 0.0
    for turn in turns:
        for prompt, ids, advantage in zip(turn["prompts"], turn["completion_ids"], turn["advantages"], strict=True):
            prompt_ids = tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True
            )["input_ids"]
            logps = policy(torch.tensor([prompt_ids + ids])).logits[0].log_softmax(-1)
            logp = sum(logps[len(prompt_ids) + k - 1, token] for k, token in enumerate(ids))
            grpo = 1 / len(ids) / len(completions)  # mean over tokens, then over sequences
            scale = grpo if trained.args.loss_type == "grpo" else 1 / sum(map(len, completions))
            loss = loss - scale * advantage * logp
            value -= scale * advantage * len(ids)  # with an importance ratio of 1
    loss.backward()
    assert trained.state.log_history[1]["loss"] == pytest.approx(value, abs=2e-4)
    assert abs(value) > 1e-3
    for name, parameter in policy.named_parameters():
        assert (parameter.grad - trained.gradients[name]).abs().max() <= 1e-5
    assert max(gradient.abs().max() for gradient in trained.gradients.values()) > 1e-2


def test_the_table_has_the_rows_of_all_turns(trained):
    for turns, path in zip(
        generations(trained), sorted(Path(trained.args.output_dir).glob("completions/*.parquet")), strict=True
    ):
        table = pd.read_parquet(path)
        assert list(table["prompt_kind"]) == [kind for turn in turns for kind in turn["kinds"]]
        parents = [None if pd.isna(parent) else parent for parent in table["parent_id"]]
        assert parents == [parent for turn in turns for parent in turn["parents"]]
        assert table["weighted_advantage"].tolist() == [value for turn in turns for value in turn["advantages"]]


@pytest.mark.parametrize(
    ("steps_per_generation", "accumulation", "iterations"), [(4, 2, 1), pytest.param(2, 1, 2, marks=pytest.mark.slow)]
)
def test_several_optimizer_steps_per_generation(
    program_model, tmp_path, steps_per_generation, accumulation, iterations
):
    """The model samples completions, and is trained on parts of them, and several times."""
    trainer = pool_runs.make_trainer(
        program_model,
        tmp_path,
        max_turns=2,
        max_steps=4,
        per_device_train_batch_size=ROWS // steps_per_generation,
        steps_per_generation=steps_per_generation,
        gradient_accumulation_steps=accumulation,
        num_iterations=iterations,
    )
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    assert [turn["generation"] for turn in trainer.turns] == ([1, 1, 2, 2] if iterations == 1 else [1, 1])
    assert all(math.isfinite(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry)
    assert any(not torch.equal(before[name], p) for name, p in trainer.model.named_parameters())
    assert {kind for turn in trainer.turns[1:] for kind in turn["kinds"]} >= {"improve"}


def test_turns_without_competitions_are_refused(tmp_path):
    """Each would only ask the dataset's prompt again."""
    message = r"^max_turns=2 improves programs of the trainer's `competitions`: give them, or set max_turns to 1$"
    with pytest.raises(ValueError, match=message):
        make_trainer("no/such/model", tmp_path, max_turns=2)  # before it is loaded
