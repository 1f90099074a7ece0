"""A trainer whose rewards and durations depend only on the texts."""

import torch
from datasets import Dataset
from trl import GRPOConfig

from support.on_cpu import ON_CPU
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


PROMPTS = [[{"role": "user", "content": text}] for text in ("Write a program.", "Import pandas!")]


def text_reward(completions, **kwargs):
    """A number that depends only on the text."""
    return [sum(map(ord, completion[0]["content"])) % 11 / 10 for completion in completions]


def timed_reward(completions, log_extra, **kwargs):
    """The same, and a duration that depends only on the text; some are unknown."""
    log_extra("duration_s", [len(completion[0]["content"]) or None for completion in completions])
    return text_reward(completions)


def make_trainer(model, output_dir, reward=timed_reward, cls=MLEGRPOTrainer, rows=12, trainer_kwargs=None, **config):
    dataset = Dataset.from_list([{"prompt": PROMPTS[i % 2], "competition": "ab"[i % 2]} for i in range(rows)])
    defaults = ON_CPU | {"learning_rate": 1e-2, "max_steps": 3, "per_device_train_batch_size": 8}
    defaults |= {"num_generations": 4, "max_completion_length": 8}
    defaults |= {"shuffle_dataset": False}  # every batch has a group for each prompt
    config_cls = MLEGRPOConfig if issubclass(cls, MLEGRPOTrainer) else GRPOConfig
    args = config_cls(str(output_dir), **(defaults | config))
    return cls(model, reward, args, train_dataset=dataset, **(trainer_kwargs or {}))


def trained_weights(*args, **kwargs):
    trainer = make_trainer(*args, **kwargs)
    trainer.train()
    return weights_of(trainer.model)


def weights_of(model):
    return {name: weights.detach().clone() for name, weights in model.named_parameters() if weights.requires_grad}


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
