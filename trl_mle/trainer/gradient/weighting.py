"""Computes the duration weights of a batch."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trl_mle.trainer.batch import Completion
from trl_mle.trainer.duration import duration_weights
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


DECAY = 0.9  # decay of a rollout's share in the running mean, per later batch's worth of rollouts


class Weighting:
    """Duration weights of the batches of a run. Where rollouts wait for later steps, a batch may hold a single group
    of a competition: there, the mean runs over earlier rollouts, too, which decay by 0.9 for every batch's worth of
    later ones of their competition."""

    def __init__(self, args: MLEGRPOConfig):
        self.args = args
        self._sums: dict[str, list[float]] = {}  # of Δt, and how many, for each competition

    def weights(self, completions: Sequence[Completion]) -> torch.Tensor:
        """The [`~trl_mle.trainer.duration_weights`] of each competition of a batch: the slowest must not dominate."""
        evaluations = [item.evaluation for item in completions]
        seconds = [None if item.infrastructure_failed else item.duration_s for item in evaluations]
        durations = torch.tensor([math.nan if value is None else float(value) for value in seconds])
        by_competition = defaultdict(list)
        for i, item in enumerate(completions):
            by_competition[item.competition].append(i)
        weights = torch.ones(len(completions))
        for competition, indices in by_competition.items():
            weights[indices] = self._weights(competition, durations[indices])
        return weights

    def _weights(self, competition: str | None, durations: torch.Tensor) -> torch.Tensor:
        assert self.args.duration_weighting is not None  # MLEGRPOConfig has filled it in
        # With one batch in flight training is synchronous
        mean = self.running_mean(competition, durations) if self.args.keeps_logps else None
        low, high = self.args.duration_weight_low, self.args.duration_weight_high
        return duration_weights(durations, self.args.duration_weighting, low, high, mean)

    def running_mean(self, competition: str | None, durations: torch.Tensor) -> float:
        """Adds a batch's Δt of a competition (NaN where it is unknown); returns the mean, NaN while no Δt is known."""
        present = durations[~durations.isnan()].double()
        seconds, count = self._sums.get(competition or "", (0.0, 0.0))
        decay = DECAY ** (len(present) / self.args.completions_per_batch)
        seconds, count = decay * seconds + present.sum().item(), decay * count + len(present)
        self._sums[competition or ""] = [seconds, count]
        return seconds / count if count else math.nan

    def state_dict(self) -> dict[str, Any]:
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums = {competition: list(sums) for competition, sums in state.items()}


def weight_metrics(
    advantages: Sequence[float], weighted: Sequence[float], weights: Sequence[float], durations: Sequence[float | None]
) -> dict[str, float]:
    """The effect of the weights on a batch, from its advantages before and after them: the net push on all
    completions, the equivalent number of equally weighted ones, and what the weights add in each quartile of Δt."""
    squares = sum(weight**2 for weight in weights)
    metrics = {
        "weighted_advantage/sum": sum(weighted),
        "duration_weight/effective_sample_size": sum(weights) ** 2 / squares if squares else 0.0,
    }
    timed = [i for i, seconds in enumerate(durations) if seconds is not None]
    if len(timed) < 4:
        return metrics
    fastest_first = sorted(timed, key=lambda i: durations[i] or 0.0)
    for number, quarter in enumerate(np.array_split(fastest_first, 4), 1):
        metrics[f"weight_pays/q{number}"] = float(np.mean([weighted[i] - advantages[i] for i in quarter]))
    return metrics
