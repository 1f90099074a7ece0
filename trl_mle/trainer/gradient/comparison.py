"""Compares the completions of each group."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from trl_mle.rewards import MLEReward
from trl_mle.trainer.advantages import standardized
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.gradient.objectives import Group, find_objective, progress_of
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


class Comparison:
    """Replaces TRL's advantages by those of `args.objective`, except with `"reward"`. It judges the rewards of the
    [`~trl_mle.rewards.MLEReward`], or else of the first reward function; other rewards are standardised and added."""

    def __init__(self, args: MLEGRPOConfig, reward_funcs: Sequence[Any], reward_weights: torch.Tensor):
        self.args = args
        self.objective = find_objective(args)
        self.reward_weights = reward_weights.double().cpu()
        self.judge = next((i for i, func in enumerate(reward_funcs) if isinstance(func, MLEReward)), 0)
        self._without_quality: list[bool] = []

    def advantages(self, completions: Sequence[Completion], rewards: torch.Tensor) -> torch.Tensor | None:
        if self.objective is None:
            return None
        size = self.args.group_size
        starts = range(0, len(completions), size)
        groups = [completions[start : start + size] for start in starts]
        self._without_quality = [len({item.evaluation.quality for item in group} - {None}) < 2 for group in groups]
        rewards = rewards.double().cpu()
        return torch.cat(
            [self._of_group(group, rewards[start : start + size]) for start, group in zip(starts, groups, strict=True)]
        )

    def _of_group(self, completions: Sequence[Completion], rewards: torch.Tensor) -> torch.Tensor:
        numbers: dict[Any, int] = {}
        # An unknown program equals no other
        names = [item.evaluation.program_id or i for i, item in enumerate(completions)]
        program = torch.tensor([numbers.setdefault(name, len(numbers)) for name in names])
        qualities = [item.evaluation.quality for item in completions]
        quality = torch.tensor([math.nan if value is None else value for value in qualities], dtype=torch.float64)
        total = torch.zeros(len(completions), dtype=torch.float64)
        for i, weight in enumerate(self.reward_weights):
            present = ~rewards[:, i].isnan()
            own = rewards[present, i]
            if i != self.judge and present.any():
                total[present] += weight * standardized(own)
            elif present.any():
                group = Group(own, progress_of(own, quality[present]), quality[present], program[present])
                total[present] += weight * self._own(group)
        return total

    def _own(self, group: Group) -> torch.Tensor:
        """The objective's advantages; a user's may be wrong, and NaN would destroy the weights."""
        assert self.objective is not None
        advantages = torch.as_tensor(self.objective.advantages(group), dtype=torch.float64)
        if advantages.shape != group.rewards.shape or not advantages.isfinite().all():
            name, count = self.args.objective, len(group.rewards)
            raise ValueError(f"objective: {name} must give {count} finite advantages, not {advantages.tolist()}")
        return advantages

    def metrics(self) -> dict[str, float]:
        """The share of groups in the last batch with fewer than two different scores of valid programs."""
        if not self._without_quality:
            return {}
        return {"no_quality_rate": sum(self._without_quality) / len(self._without_quality)}
