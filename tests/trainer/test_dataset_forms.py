"""Our trainer takes every dataset that TRL's takes."""

from itertools import cycle, islice

import pytest
from datasets import Dataset, IterableDataset
from support.on_cpu import ON_CPU
from support.pool_runs import EOS, LINES, vocabulary
from support.replay_executor import ReplayExecutor
from support.toy_trainer import equal
from trl import GRPOConfig, GRPOTrainer

from trl_mle.rewards import MLEReward
from trl_mle.trainer import AsyncMLEGRPOTrainer, MLEGRPOConfig, MLEGRPOTrainer


TEXTS = ["Write a program.", "Import pandas, then write a program!"]
CHATS = [[{"role": "user", "content": text}] for text in TEXTS]
ANSWER = {"role": "assistant", "content": "```python\n"}
TURNS = [{"role": "system", "content": "Be brief."}, *CHATS[0], ANSWER, *CHATS[1]]
BEGUN = [[*chat, ANSWER] for chat in CHATS]
MORE = {"label": [1, 2], "nested": [{"of": [1]}, {"of": []}], "seconds": [None, 0.5]}


def table(prompts, **columns):
    return Dataset.from_dict(
        {name: list(islice(cycle(values), 8)) for name, values in {"prompt": prompts, **columns}.items()}
    )


def generated(prompts):
    """A stream whose columns and length are not known."""
    return IterableDataset.from_generator(lambda: iter(table(prompts)))


FORMS = {
    "several turns": table([TURNS, CHATS[0]]),
    "begun answers": table(BEGUN),
    "begun and other answers": table([BEGUN[0], CHATS[1]]),
    "one token, and more": table(["x", TEXTS[0]]),
    "generated stream": generated(CHATS),
    "several evaluation sets": table(TEXTS, **MORE).to_iterable_dataset(),
}
EVALUATION = {"conversations": table(CHATS, **MORE), "token": table(["x"]), "stream": generated(TEXTS)}
AS_WITH_TRL = ("several turns", "one token, and more", "several evaluation sets")
OBJECTIVES = ("reward", "mean_rank", "max_at_k")


def own_reward(prompts, completions, completion_ids, log_extra, **columns):
    """Takes completions in the form of their prompts, and the dataset's columns."""
    texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
    assert list(map(type, completions)) == list(map(type, prompts))
    if "label" in columns:
        assert all(columns[name][i] in values for name, values in MORE.items() for i in range(len(texts)))
    log_extra("quality", [len(text) if len(text) % 3 else None for text in texts])
    log_extra("duration_s", [float(len(text)) for text in texts])
    return [float(len(ids)) for ids in completion_ids]


def train(model, folder, form, cls=MLEGRPOTrainer, reward=own_reward, **options):
    """Two steps, and an evaluation of each dataset."""
    config = ON_CPU | {"per_device_train_batch_size": 4, "num_generations": 2, "max_steps": 2, "learning_rate": 0.01}
    config |= {"max_completion_length": 4, "per_device_eval_batch_size": 8, "num_generations_eval": 2}
    config |= {"eval_strategy": "steps", "eval_steps": 2, "log_completions": True}
    config |= {"generation_kwargs": {"suppress_tokens": [i for i in range(vocabulary(model) - LINES) if i != EOS]}}
    args = (GRPOConfig if cls is GRPOTrainer else MLEGRPOConfig)(str(folder), **(config | options))
    trainer = cls(model, reward, args, FORMS[form], EVALUATION if form == "several evaluation sets" else FORMS[form])
    trainer.train()
    assert trainer.state.global_step == 2
    assert any(name.endswith("_runtime") and "eval" in name for entry in trainer.state.log_history for name in entry)
    return dict(trainer.model.named_parameters())


@pytest.mark.parametrize("form", FORMS)
def test_every_form(program_model, tmp_path, form):
    """Together, the forms have each objective, both ways of training, and shared prompts or not."""
    place = list(FORMS).index(form)
    is_async, shares = bool(place % 2), bool(place // 2 % 2)
    reward = MLEReward(["wine"], ReplayExecutor(patient=True), show_progress=False) if is_async else own_reward
    options = {"objective": OBJECTIVES[place % 3], "async_rollouts": is_async, "share_prompts": shares}
    cls = AsyncMLEGRPOTrainer if is_async else MLEGRPOTrainer
    train(program_model, tmp_path, form, cls, reward, **options)


@pytest.mark.parametrize("form", AS_WITH_TRL)
def test_every_form_trains_as_it_does_with_trl(program_model, tmp_path, form):
    """To the last bit, where nothing is weighted. TRL has the policy answer after begun answers."""
    stock = train(program_model, tmp_path / "stock", form, GRPOTrainer)
    assert equal(train(program_model, tmp_path / "ours", form, duration_weighting="none"), stock)
