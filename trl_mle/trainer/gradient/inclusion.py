"""Estimates for asynchronous training: the distribution of Δt while some programs are still running, the probability
that a rollout was trained on, and a running mean of Δt. Derivations: studies/duration_bias.md in commit 2f34a2d."""

import math
from typing import Any

import torch
from sklearn.isotonic import IsotonicRegression

from trl_mle.trainer.gradient.duration import duration_weights


DECAY = 0.9  # decay of a rollout's share in the running mean, per later batch's worth of rollouts
CHANCE = 3.0  # a fall of the probabilities counts from so many times on what chance explains on average


class MeanDuration:
    """Running mean of the Δt of rollouts that asynchronous training has trained on, for each competition: a batch may
    hold a single rollout of one, whose Δt is its own mean. Rollouts decay by 0.9 for every `batch_size` later ones
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


def kaplan_meier_masses(seconds: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
    """
    The number of sampled programs that each ended program stands for, by the estimator of Kaplan and Meier (1958) for the
    distribution of Δt: a running program's mass of 1 is shared among all longer programs that have ended.

    Args:
        seconds (`torch.Tensor` of shape `(N,)`):
            Δt of a program that has ended, otherwise how long it has run so far.
        ended (`torch.Tensor` of shape `(N,)`):
            Whether it has ended.

    Returns:
        `torch.Tensor` of shape `(N,)`: The masses: 1 each if all have ended; 0 for running programs. They sum to N, minus
        the mass of programs that have run for longer than any that has ended.
    """
    order = torch.argsort((~ended).int(), stable=True)  # of equal times the ended one comes first
    order = order[torch.argsort(seconds[order], stable=True)]
    at_risk = torch.arange(len(order), 0, -1, dtype=torch.float64)
    outlived = torch.where(ended[order], 1 - 1 / at_risk, torch.ones_like(at_risk)).cumprod(0).roll(1)
    outlived[:1] = 1
    masses = torch.zeros_like(at_risk)
    masses[order] = len(order) * outlived / at_risk * ended[order]
    return masses


def duration_quartiles(seconds: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
    """The three quartiles of the distribution estimated by [`kaplan_meier_masses`]; a quartile beyond all ended
    programs is the longest time of all."""
    order = torch.argsort(seconds)
    shares = kaplan_meier_masses(seconds, ended)[order].cumsum(0)
    quarters = torch.tensor([0.25, 0.5, 0.75], dtype=shares.dtype) - 1e-9  # sums of masses are not exact
    places = torch.searchsorted(shares, len(order) * quarters).clamp(max=len(order) - 1)
    return seconds[order][places]


def inclusion_probabilities(
    durations: torch.Tensor, seconds: torch.Tensor, ended: torch.Tensor, trained: torch.Tensor
) -> torch.Tensor:
    """
    P(already trained | Δt) for each of `durations`, estimated from recently sampled units (rollouts or groups of them).

    It is the number trained on divided by the number sampled (by their [`kaplan_meier_masses`]), as an isotonic regression on
    Δt: a longer program is never more likely to have been trained on than a shorter one.

    Args:
        durations (`torch.Tensor` of shape `(B,)`):
            Δt of units that were trained on; NaN where it is unknown, and then the probability is NaN.
        seconds (`torch.Tensor` of shape `(N,)`), ended (`torch.Tensor` of shape `(N,)`), trained (`torch.Tensor` of shape `(N,)`):
            All sampled units: Δt if the unit has ended, otherwise how long it has run so far; whether it has ended; and
            whether it has been trained on.
    """
    probabilities = torch.full_like(durations, torch.nan)
    known = ~durations.isnan()
    if known.any():
        masses = kaplan_meier_masses(seconds, ended)[ended]
        falling = IsotonicRegression(increasing=False, out_of_bounds="clip")
        falling.fit(seconds[ended].numpy(), (trained[ended] / masses).numpy(), sample_weight=masses.numpy())
        probabilities[known] = torch.from_numpy(falling.predict(durations[known].double().numpy())).to(durations)
    return probabilities


def inclusion_weights(
    durations: torch.Tensor,
    seconds: torch.Tensor,
    ended: torch.Tensor,
    trained: torch.Tensor,
    low: float | None = None,
    high: float | None = None,
) -> torch.Tensor:
    """
    [`~trl_mle.trainer.duration_weights`] with 1 / P(already trained | Δt) instead of Δt, which corrects the bias against
    slow programs (Horvitz and Thompson, 1952); see [`inclusion_probabilities`] for the arguments.

    Unless a bound clips, their mean over everything trained on so far is 1. All are 1 if nothing is missing, or if what is
    missing may be so by chance, see [`falls_by_chance`]; unknown Δt has weight 1.
    """
    both = torch.cat([durations.to(seconds), seconds[ended]])  # fitted once
    probabilities = inclusion_probabilities(both, seconds, ended, trained)
    of_ended = probabilities[len(durations) :]
    if falls_by_chance(of_ended, seconds[ended], kaplan_meier_masses(seconds, ended)[ended]):
        return torch.ones_like(durations)
    mean = (1 / of_ended[trained[ended]]).mean().item()
    return duration_weights((1 / probabilities[: len(durations)]).to(durations), "linear", low, high, mean)


def falls_by_chance(probabilities: torch.Tensor, seconds: torch.Tensor, masses: torch.Tensor) -> bool:
    """Whether the [`inclusion_probabilities`] of all ended units fall with their Δt no more than they would if they
    did not depend on it: an isotonic regression finds a slope in pure noise, most of all early in a run."""
    if not len(seconds):
        return True
    mean = (masses * probabilities).sum() / masses.sum()
    explained = (masses * (probabilities - mean) ** 2).sum()
    by_chance = mean * (1 - mean) * sum(1 / i for i in range(2, len(seconds.unique()) + 1))
    return bool(explained <= CHANCE * by_chance)
