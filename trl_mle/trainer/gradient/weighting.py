"""Computes the duration weights of a batch."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trl_mle.trainer.batch import Completion
from trl_mle.trainer.duration import duration_weights, weights_by_competition
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


DECAY = 0.9  # decay of a rollout's share in the running mean, per later batch's worth of rollouts


class MeanDuration:
    """Running mean of the Δt of rollouts that asynchronous training has trained on, for each competition: a batch may
    hold a single group of one, whose Δt is its own mean. Rollouts decay by 0.9 for every `batch_size` later ones
    of their competition. The current batch is included, so that a weight is at most about 10 `batch_size`."""

    def __init__(self, batch_size: int):
        self.batch_size = batch_size
        self._sums: dict[str, list[float]] = {}  # of Δt, and how many, for each competition

    def update(self, competition: str | None, durations: torch.Tensor) -> float:
        """Adds a batch's Δt of a competition (NaN where it is unknown); returns the mean, NaN while no Δt is known."""
        known = durations[~durations.isnan()].double()
        seconds, count = self._sums.get(competition or "", (0.0, 0.0))
        decay = DECAY ** (len(known) / self.batch_size)
        sums = [decay * seconds + known.sum().item(), decay * count + len(known)]
        self._sums[competition or ""] = sums
        return sums[0] / sums[1] if sums[1] else math.nan

    def state_dict(self) -> dict[str, Any]:
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums = {competition: list(sums) for competition, sums in state.items()}


class Weighting:
    """Duration weights of the batches of a run."""

    def __init__(self, args: MLEGRPOConfig):
        self.args = args
        self.mean_duration = MeanDuration(args.completions_per_batch)

    def weights(self, completions: Sequence[Completion]) -> torch.Tensor:
        """The [`~trl_mle.trainer.duration_weights`] of a batch, by competition."""
        evaluations = [item.evaluation for item in completions]
        known = [None if item.infrastructure_failed else item.duration_s for item in evaluations]
        durations = torch.tensor([math.nan if seconds is None else float(seconds) for seconds in known])
        return weights_by_competition([item.competition for item in completions], durations, self._weights)

    def _weights(self, competition: str | None, durations: torch.Tensor) -> torch.Tensor:
        assert self.args.duration_weighting is not None  # MLEGRPOConfig has filled it in
        # With one batch in flight training is synchronous
        mean = self.mean_duration.update(competition, durations) if self.args.keeps_logps else None
        low, high = self.args.duration_weight_low, self.args.duration_weight_high
        return duration_weights(durations, self.args.duration_weighting, low, high, mean)

    def state_dict(self) -> dict[str, Any]:
        return self.mean_duration.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean_duration.load_state_dict(state)


def weight_metrics(
    advantages: Sequence[float], weighted: Sequence[float], weights: Sequence[float], durations: Sequence[float | None]
) -> dict[str, float]:
    """Metrics of the weights' effect on a batch, from the advantages of all completions before and after weighting,
    their weights, and Δt of their programs in seconds: the net push on all completions (0 without weights for group
    advantages), the equivalent number of equally weighted completions, and what the weights add in each quartile of
    Δt."""
    squares = sum(weight**2 for weight in weights)
    metrics = {
        "weighted_advantage/sum": sum(weighted),
        "duration_weight/effective_sample_size": sum(weights) ** 2 / squares if squares else 0.0,
    }
    known = [i for i, seconds in enumerate(durations) if seconds is not None]
    if len(known) < 4:
        return metrics
    fastest_first = sorted(known, key=lambda i: durations[i] or 0.0)
    for number, quarter in enumerate(np.array_split(fastest_first, 4), 1):
        metrics[f"weight_pays/q{number}"] = float(np.mean([weighted[i] - advantages[i] for i in quarter]))
    return metrics
