"""Compares the completions of a batch, within groups or with earlier ones of their prompt."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from trl_mle.rewards import MLEReward
from trl_mle.trainer.gradient.advantages import standardized
from trl_mle.trainer.gradient.objectives import Group, find_objective, progress_of
from trl_mle.trainer.gradient.running_baseline import RunningBaseline
from trl_mle.trainer.judged import Judged
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.part import Part


HISTORY = 256  # number of rollouts of the same prompt that a single rollout is compared with


class Comparison(Part):
    """
    Replaces TRL's advantages by those of `args.objective`, except for groups with the objective `"reward"`.

    The objective judges the rewards of the [`~trl_mle.rewards.MLEReward`], or else of the first reward function; those of other
    functions are standardised over the group and added with their weights. A single rollout is compared with the last 256
    rollouts of its prompt, including its batch, or with `"reward"` with a [`RunningBaseline`].
    """

    name = "objective"

    def __init__(self, args: MLEGRPOConfig, reward_funcs: Sequence[Any], reward_weights: torch.Tensor):
        self.args = args
        self.objective = find_objective(args)
        self.reward_weights = reward_weights.double().cpu()
        self.judge = next((i for i, func in enumerate(reward_funcs) if isinstance(func, MLEReward)), 0)
        self.by_rollout = args.async_rollouts and args.async_unit == "rollout"
        self.baseline = RunningBaseline()
        self._history: dict[str, list[list[Any]]] = {}  # rewards, quality and program of each rollout, for each prompt
        self._without_quality: list[bool] = []

    def advantages(
        self, completions: Sequence[Judged], rewards: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor | None:
        rewards = rewards.double().cpu()
        if self.objective is None:
            if not self.by_rollout:
                return None
            summed = (rewards * self.reward_weights).nansum(dim=1)
            summed[rewards.isnan().all(dim=1)] = torch.nan
            names = [item.prompt_name for item in completions]
            return self.baseline.advantages(names, summed, weights, self.args.scale_rewards != "none")
        known = [
            [scores, item.evaluation.quality, item.evaluation.program_id]
            for scores, item in zip(rewards.tolist(), completions, strict=True)
        ]
        advantages = torch.zeros(len(completions), dtype=torch.float64)
        self._without_quality = []
        for members in self._compared(completions):
            name = completions[members[0]].prompt_name
            before = self._history.get(name, []) if self.by_rollout else []
            group = before + [known[i] for i in members]
            advantages[members] = self._of_group(group)[len(before) :]
            self._without_quality.append(len({quality for _, quality, _ in group} - {None}) < 2)
            if self.by_rollout:
                self._history[name] = group[-HISTORY:]
        return advantages

    def _compared(self, completions: Sequence[Judged]) -> list[list[int]]:
        """The completions to compare with each other: those of a group, or of a prompt."""
        groups: dict[Any, list[int]] = defaultdict(list)
        for i, item in enumerate(completions):
            groups[item.prompt_name if self.by_rollout else i // self.args.group_size].append(i)
        return list(groups.values())

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

    def state_dict(self) -> dict[str, Any]:
        if not self.by_rollout:
            return {}
        return {"baseline": self.baseline.state_dict(), "history": dict(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.baseline.load_state_dict(state["baseline"])
        self._history = dict(state["history"])
