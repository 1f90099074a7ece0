"""
Toy batches with fixed completions, rewards and durations, for the trainer and for computation by hand.

Completions are replayed because sampling depends on the number of processes (TRL seeds it per rank) and durations
differ in every run: only equal inputs can give equal gradients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from support.on_cpu import ON_CPU
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


NAN = math.nan
LOWEST_SCORE = -1.0  # rewards above it are scores of valid programs


@dataclass(frozen=True)
class Batch:
    """One generation batch, with a value for each completion; `ours` lists the failures of our own infrastructure."""

    num_generations: int
    competition: list[str]
    rewards: list[float]
    durations: list[float]
    ours: list[int]

    def completion_ids(self) -> list[list[int]]:
        """Unique completions of different lengths: each has its own token, some others, and `<|im_end|>` (2)."""
        return [[50 + i] + [20 + (7 * i + k) % 97 for k in range(i % 5)] + [2] for i in range(len(self.rewards))]

    def prompts(self) -> list[list[dict[str, str]]]:
        """One prompt for each group, of different lengths."""
        count = len(self.rewards) // self.num_generations
        return [[{"role": "user", "content": "Write a program." + " Now!" * i}] for i in range(count)]


BATCHES = {
    # the paper's setting: one competition
    "plain": Batch(
        num_generations=4,
        competition=["a"] * 8,
        rewards=[-10.0, -9.8, 0.7, 0.9, -10.0, -10.0, 0.8, -9.5],
        durations=[0.1, 0.3, 2.0, 9.0, 0.05, 0.2, 4.0, 1.0],
        ours=[],
    ),
    # a second group that lies in both of two processes; two competitions of very different speed; unknown durations;
    # a completion that must be left out although it has a reward and a duration
    "straddling": Batch(
        num_generations=4,
        competition=["a"] * 4 + ["b"] * 4 + ["a"] * 4,
        rewards=[-10.0, 0.5, 0.7, -9.9, -10.0, 0.2, 0.3, -9.0, 0.1, 0.4, 90.0, -10.0],
        durations=[0.1, 3.0, 5.0, NAN, 40.0, 80.0, 10.0, 0.5, 1.0, NAN, 700.0, 0.0],
        ours=[10],
    ),
}


class ReplayTrainer(MLEGRPOTrainer):
    """Uses the completions of a [`Batch`] where TRL would generate them."""

    batch: Batch

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        start = self.accelerator.process_index * len(prompt_ids)
        return self.batch.completion_ids()[start : start + len(prompt_ids)], None


class GradientRecorder(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        named = model.named_parameters()
        self.gradients = {name.removeprefix("module."): p.grad.detach().clone() for name, p in named}


def trainer_gradients(model: str, output_dir: str, batch: Batch, per_device_batch: int, **config) -> dict[str, Tensor]:
    """Gradients of the trainer's first optimizer step, averaged over processes."""

    def reward(completion_ids, log_extra, **kwargs):
        indices = [batch.completion_ids().index(ids) for ids in completion_ids]
        log_extra("duration_s", [batch.durations[i] for i in indices])
        log_extra("outcome", ["infrastructure" if i in batch.ours else "ok" for i in indices])
        log_extra("quality", [batch.rewards[i] if batch.rewards[i] > LOWEST_SCORE else None for i in indices])
        return [batch.rewards[i] for i in indices]

    names = batch.competition[:: batch.num_generations]
    dataset = Dataset.from_dict({"prompt": batch.prompts(), "competition": names})
    config |= {"per_device_train_batch_size": per_device_batch, "num_generations": batch.num_generations}
    config |= {"shuffle_dataset": False, "max_grad_norm": 0.0, "max_steps": 1, "max_completion_length": 8}
    args = MLEGRPOConfig(output_dir, **ON_CPU, **config)
    recorder = GradientRecorder()
    trainer = ReplayTrainer(model, reward, args, dataset, callbacks=[recorder])
    trainer.batch = batch
    trainer.train()
    return recorder.gradients


def standardized_rewards(rewards: list[float]) -> Tensor:
    """The paper's advantages of a group."""
    values = torch.tensor(rewards)
    return (values - values.mean()) / (values.std() + 1e-4)


def two_parts(rewards: list[float]) -> Tensor:
    """Advantages of a group with the objective `max_at_k`, k = 2, where scores differ and failures earn at most -9."""
    failed = [reward for reward in rewards if reward <= LOWEST_SCORE]
    scores = sorted(reward for reward in rewards if reward > LOWEST_SCORE)
    # 3 m times the gain for the best of two, over all pairs, of ranks that are 1 / m apart
    pairs = max(1, math.comb(len(scores), 2))
    gains = {score: 3 * sum(place - below for below in range(place)) / pairs for place, score in enumerate(scores)}
    progress = torch.tensor([reward if reward in failed else min(failed, default=0) + 3 for reward in rewards])
    quality = torch.tensor([gains.get(reward, 0.0) for reward in rewards])
    centred = progress - progress.mean()
    return centred / (centred.std() or 1) + quality - quality.mean()


def gradients_by_hand(
    model: str, batch: Batch, loss_type: str, weighted: bool = True, of_group: Callable = standardized_rewards
) -> dict[str, Tensor]:
    """∇ of -Σ w·Â·log π, sequence by sequence, without padding, and without any code of the trainer."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    kept = [i for i in range(len(batch.rewards)) if i not in batch.ours]

    weights = [1.0] * len(batch.rewards)
    for i in kept if weighted else []:
        same = [batch.durations[j] for j in kept if batch.competition[j] == batch.competition[i]]
        known = [duration for duration in same if not math.isnan(duration)]
        if not math.isnan(batch.durations[i]):
            weights[i] = batch.durations[i] * len(known) / sum(known)

    advantages = [0.0] * len(batch.rewards)
    for i in kept:
        group = [j for j in kept if j // batch.num_generations == i // batch.num_generations]
        advantages[i] = of_group([batch.rewards[j] for j in group])[group.index(i)].item()

    completions = batch.completion_ids()
    loss = torch.zeros(())
    for i, completion in enumerate(completions):
        prompt = tokenizer.apply_chat_template(
            batch.prompts()[i // batch.num_generations], add_generation_prompt=True, tokenize=True, return_dict=True
        )["input_ids"]
        logps = policy(torch.tensor([prompt + completion])).logits[0].log_softmax(-1)
        logp = sum(logps[len(prompt) + k - 1, token] for k, token in enumerate(completion))
        # grpo: mean over tokens, then over sequences; dapo: mean over all tokens
        scale = 1 / len(completion) / len(completions) if loss_type == "grpo" else 1 / sum(map(len, completions))
        loss = loss - weights[i] * advantages[i] * logp * scale
    loss.backward()
    return {name: p.grad for name, p in policy.named_parameters()}


def work(model: str, output_dir: Path, cases: list[tuple[str, int, dict]]) -> None:
    """Runs in each of two processes that train together; writes its gradients to `gradients-<rank>.pt`."""
    results = {}
    for name, per_device_batch, config in cases:
        key = (name, per_device_batch, config["loss_type"], config.get("objective", "reward"))
        results[key] = trainer_gradients(model, str(output_dir / "run"), BATCHES[name], per_device_batch, **config)
    assert torch.distributed.get_world_size() == 2
    torch.save(results, output_dir / f"gradients-{torch.distributed.get_rank()}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
