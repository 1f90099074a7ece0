"""Compares the completions of each group."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from trl_mle.rewards import MLEReward
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.advantages import standardized
from trl_mle.trainer.gradient.objectives import Group, find_objective, progress_of
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


class Comparison:
    """
    Replaces TRL's advantages by those of `args.objective`, except with `"reward"`.

    The objective judges the rewards of the [`~trl_mle.rewards.MLEReward`], or else of the first reward function; those of other
    functions are standardised over the group and added with their weights.
    """

    def __init__(self, args: MLEGRPOConfig, reward_funcs: Sequence[Any], reward_weights: torch.Tensor):
        self.args = args
        self.objective = find_objective(args)
        self.reward_weights = reward_weights.double().cpu()
        self.judge = next((i for i, func in enumerate(reward_funcs) if isinstance(func, MLEReward)), 0)
        self._without_quality: list[bool] = []

    def advantages(self, completions: Sequence[Completion], rewards: torch.Tensor) -> torch.Tensor | None:
        if self.objective is None:
            return None
        known = [
            [scores, item.evaluation.quality, item.evaluation.program_id]
            for scores, item in zip(rewards.double().tolist(), completions, strict=True)
        ]
        size = self.args.group_size
        groups = [known[start : start + size] for start in range(0, len(known), size)]
        self._without_quality = [len({quality for _, quality, _ in group} - {None}) < 2 for group in groups]
        return torch.cat([self._of_group(group) for group in groups])

    def _of_group(self, known: list[list[Any]]) -> torch.Tensor:
        numbers: dict[Any, int] = {}
        # An unknown program equals no other
        names = [i if name is None else name for i, (_, _, name) in enumerate(known)]
        program = torch.tensor([numbers.setdefault(name, len(numbers)) for name in names])
        quality = torch.tensor([math.nan if q is None else q for _, q, _ in known], dtype=torch.float64)
        rewards = torch.tensor([scores for scores, _, _ in known], dtype=torch.float64)
        total = torch.zeros(len(known), dtype=torch.float64)
        judged = ~rewards[:, self.judge].isnan()
        if judged.any():
            own = rewards[judged, self.judge]
            group = Group(own, progress_of(own, quality[judged]), quality[judged], program[judged])
            total[judged] = self.reward_weights[self.judge] * self._own(group)
        for i, weight in enumerate(self.reward_weights):
            given = ~rewards[:, i].isnan()
            if i != self.judge and given.any():
                total[given] += weight * standardized(rewards[given, i])
        return total

    def _own(self, group: Group) -> torch.Tensor:
        """The objective's advantages; a user's may be wrong, and NaN would destroy the weights."""
        assert self.objective is not None
        found = torch.as_tensor(self.objective.advantages(group), dtype=torch.float64)
        if found.shape != group.rewards.shape or not found.isfinite().all():
            raise ValueError(
                f"objective: {self.args.objective} must give each of {len(group.rewards)} completions a finite advantage, not "
                f"{found.tolist()}"
            )
        return found

    def metrics(self) -> dict[str, float]:
        """`no_quality_rate` of the last batch: share of groups with fewer than two different scores of valid programs."""
        if not self._without_quality:
            return {}
        return {"no_quality_rate": sum(self._without_quality) / len(self._without_quality)}
