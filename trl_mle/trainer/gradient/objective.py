"""Advantages that replace TRL's: with two parts, and for single rollouts."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.trainer.gradient.advantages import VALID_STEP, group_advantages, standardized
from trl_mle.trainer.gradient.running_baseline import RunningBaseline
from trl_mle.trainer.judged import Judged
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


HISTORY = 256  # number of rollouts of the same prompt that a single rollout is compared with


class Objective:
    """
    Computes a run's advantages for `args.objective`.

    With `"mean_rank"` and `"max_at_k"`, the [`~trl_mle.rewards.MLEReward`], or else the first reward function, gets advantages with two
    parts, see [`~trl_mle.trainer.gradient.advantages.group_advantages`]; rewards of other functions are standardised over the
    group and added with their weights. A single rollout is compared with the last 256 rollouts of its prompt,
    including its batch.

    Args:
        args ([`MLEGRPOConfig`]):
            `objective`, `max_at_k`, and the unit of training.
        reward_funcs (`Sequence[RewardFunc]`):
            The trainer's reward functions.
        reward_weights (`torch.Tensor` of shape `(F,)`):
            Their weights.
    """

    def __init__(self, args: MLEGRPOConfig, reward_funcs: Sequence[Any], reward_weights: torch.Tensor):
        self.args = args
        self.reward_weights = reward_weights.double().cpu()
        self.judge = next((i for i, func in enumerate(reward_funcs) if isinstance(func, MLEReward)), 0)
        self.by_rollout = args.async_rollouts and args.async_unit == "rollout"
        self.baseline = RunningBaseline()
        self._history: dict[str, list[list[Any]]] = {}  # rewards, quality and program of each rollout, for each prompt
        self._without_quality: list[bool] = []

    def advantages(
        self, completions: Sequence[Judged], rewards: torch.Tensor, duration_weights: torch.Tensor
    ) -> torch.Tensor | None:
        """
        Computes the advantages of a batch, and remembers the batch for later ones.

        Args:
            completions (`Sequence[Judged]`):
                Those of all processes.
            rewards (`torch.Tensor` of shape `(B, F)`):
                Rewards of each reward function; NaN if it returned none.
            duration_weights (`torch.Tensor` of shape `(B,)`):
                Their weights.

        Returns:
            `torch.Tensor` of shape `(B,)`, *optional*: The advantages; `None` to use TRL's.
        """
        rewards = rewards.double().cpu()
        if self.args.objective == "reward":
            if not self.by_rollout:
                return None
            summed = (rewards * self.reward_weights).nansum(dim=1)
            summed[rewards.isnan().all(dim=1)] = torch.nan
            names = [item.prompt_name for item in completions]
            return self.baseline.advantages(names, summed, duration_weights, self.args.scale_rewards != "none")
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
            total, has_quality = self._of_group(group)
            advantages[members] = total[len(before) :]
            self._without_quality.append(not has_quality)
            if self.by_rollout:
                self._history[name] = group[-HISTORY:]
        return advantages

    def lacks_signal(self, evaluations: Sequence[Evaluation]) -> bool:
        """
        Whether all advantages of a group are 0.

        Args:
            evaluations (`Sequence[Evaluation]`):
                Those of its members; failures of our infrastructure are left out. Their reward is the only one.
        """
        judged = [item for item in evaluations if not item.infrastructure_failed]
        if self.args.objective == "reward":
            return len({item.reward for item in judged}) < 2
        known = [[[item.reward], item.quality, item.program_id] for item in judged]
        return not known or not self._of_group(known)[0].any()

    def _compared(self, completions: Sequence[Judged]) -> list[list[int]]:
        """The completions to compare with each other: those of a group, or of a prompt."""
        size = self.args.num_generations
        groups: dict[Any, list[int]] = defaultdict(list)
        for i, item in enumerate(completions):
            groups[item.prompt_name if self.by_rollout else i // size].append(i)  # type: ignore[operator]
        return list(groups.values())

    def _of_group(self, group: list[list[Any]]) -> tuple[torch.Tensor, bool]:
        """The advantages, and whether their quality part distinguishes any."""
        numbers: dict[Any, int] = {}
        # An unknown program equals no other
        names = [i if name is None else name for i, (_, _, name) in enumerate(group)]
        program = torch.tensor([numbers.setdefault(name, len(numbers)) for name in names])
        quality = torch.tensor([math.nan if q is None else q for _, q, _ in group], dtype=torch.float64)
        rewards = torch.tensor([scores for scores, _, _ in group], dtype=torch.float64)
        progress, size = progress_of(rewards[:, self.judge], quality), len(group)
        k = self.args.max_at_k
        alike = torch.where(progress.isnan(), progress, 0.0)
        has_quality = bool(group_advantages(alike, quality, size, k, program).any())
        total = self.reward_weights[self.judge] * group_advantages(progress, quality, size, k, program)
        for i, weight in enumerate(self.reward_weights):
            given = ~rewards[:, i].isnan()
            if i != self.judge and given.any():
                total[given] += weight * standardized(rewards[given, i])
        return total, has_quality

    def metrics(self) -> dict[str, float]:
        """`no_quality_rate` of the last batch: share of groups in which valid programs cannot be distinguished from
        each other or from failed ones."""
        if not self._without_quality:
            return {}
        return {"no_quality_rate": sum(self._without_quality) / len(self._without_quality)}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it."""
        return {"baseline": self.baseline.state_dict(), "history": dict(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what [`state_dict`] gave."""
        self.baseline.load_state_dict(state["baseline"])
        self._history = dict(state.get("history", {}))  # older checkpoints have none


def progress_of(rewards: torch.Tensor, quality: torch.Tensor) -> torch.Tensor:
    """
    The progress of each completion of a group: the reward for failed ones; for all valid ones the same value, the
    larger of the lowest failed reward plus 3 and the highest failed reward plus 0.3.

    Args:
        rewards (`torch.Tensor` of shape `(n,)`):
            Rewards; NaN if missing.
        quality (`torch.Tensor` of shape `(n,)`):
            NaN of completions that are not valid.

    Returns:
        `torch.Tensor` of shape `(n,)`: NaN where there is no reward.
    """
    failed = rewards[quality.isnan() & ~rewards.isnan()]
    reached = max(failed.min().item() + 3.0, failed.max().item() + VALID_STEP) if len(failed) else 0.0
    return torch.where(quality.isnan() | rewards.isnan(), rewards, reached)
