"""Computes the duration weights of a batch."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trl_mle.competitions.task_set import FEW
from trl_mle.trainer.gradient.duration import duration_weights, weights_by_competition
from trl_mle.trainer.gradient.inclusion import MeanDuration, inclusion_weights
from trl_mle.trainer.judged import Judged
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.part import Part
from trl_mle.trainer.rollouts.ledger import RolloutLedger


class Weighting(Part):
    """Duration weights of the batches of a run; `"inclusion"` needs the ledger of asynchronous training."""

    name = "weighting"

    def __init__(self, args: MLEGRPOConfig, ledger: RolloutLedger | None):
        self.args = args
        self.ledger = ledger
        self.mean_duration = MeanDuration(args.completions_per_batch)

    def weights(self, completions: Sequence[Judged]) -> torch.Tensor:
        """The [`~trl_mle.trainer.duration_weights`] of a batch, by competition."""
        by_inclusion = self.args.duration_weighting == "inclusion"
        evaluations = [item.evaluation for item in completions]
        known = [item.ready_after_s if by_inclusion else item.duration_s for item in evaluations]
        durations = torch.tensor([math.nan if seconds is None else float(seconds) for seconds in known])
        durations[[i for i, item in enumerate(evaluations) if item.infrastructure_failed]] = torch.nan
        names = [item.competition for item in completions]
        if by_inclusion and self.ledger is not None and self.ledger.competitions > FEW:
            names = [None] * len(
                names
            )  # each has few known units; how long a program waits does not depend on its task
        return weights_by_competition(names, durations, self._weights)

    def _weights(self, competition: str | None, durations: torch.Tensor) -> torch.Tensor:
        low, high = self.args.duration_weight_low, self.args.duration_weight_high
        if self.args.duration_weighting == "inclusion":
            assert self.ledger is not None  # MLEGRPOConfig has checked it
            longest = self.ledger.longest_of_unit(durations)
            return inclusion_weights(longest, *self.ledger.known_units(competition), low, high)
        assert self.args.duration_weighting is not None  # MLEGRPOConfig has filled it in
        # With one batch in flight training is synchronous
        mean = self.mean_duration.update(competition, durations) if self.args.keeps_logps else None
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
