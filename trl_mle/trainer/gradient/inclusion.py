"""
Estimates for asynchronous training: the distribution of Δt while some programs are still running, the probability that
a rollout was trained on, and a running mean of Δt. Derivations: docs/duration.md.
"""

import math
from typing import Any

import torch
from sklearn.isotonic import IsotonicRegression

from trl_mle.trainer.gradient.duration import duration_weights


DECAY = 0.9  # decay of a rollout's share in the running mean, per later batch's worth of rollouts
CHANCE = 3.0  # a fall of the probabilities counts from so many times on what chance explains on average


class MeanDuration:
    r"""
    Running mean of the Δt of rollouts that asynchronous training has trained on, for each competition.

    A batch may hold a single rollout of a competition, whose Δt is its own mean. So the mean runs over the batches $t
    = 1, 2, …$ that have the competition. They decay with the number $n_t$ of its rollouts, however these are spread:
    by $\gamma = 0.9$ for every $B$ later rollouts, the size of a whole batch,

    $$
    \overline{\Delta t}_T = \frac{\sum_{t \le T} \gamma^{(N_T - N_t) / B} \sum_{i \in t} \Delta t_i}
    {\sum_{t \le T} \gamma^{(N_T - N_t) / B} \, n_t}, \qquad N_t = n_1 + … + n_t.
    $$

    The current batch is included, so a weight is at most the sum in the denominator, about $10 B$.

    Args:
        batch_size (`int`):
            $B$, the number of rollouts of a batch over all processes.
    """

    def __init__(self, batch_size: int):
        self.batch_size = batch_size
        self._sums: dict[str, list[float]] = {}  # of Δt, and how many, for each competition

    def update(self, competition: str | None, durations: torch.Tensor) -> float:
        """
        Adds a batch's rollouts of a competition.

        Args:
            competition (`str`, *optional*):
                Id of the competition; `None` if all count as one.
            durations (`torch.Tensor` of shape `(B,)`):
                Δt of its rollouts; NaN where it is unknown.

        Returns:
            `float`: The mean including these; NaN while no Δt is known.
        """
        known = durations[~durations.isnan()].double()
        seconds, count = self._sums.get(competition or "", (0.0, 0.0))
        decay = DECAY ** (len(known) / self.batch_size)
        sums = [decay * seconds + known.sum().item(), decay * count + len(known)]
        self._sums[competition or ""] = sums
        return sums[0] / sums[1] if sums[1] else math.nan

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint, JSON-compatible."""
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]."""
        self._sums = {competition: list(sums) for competition, sums in state.items()}


def kaplan_meier_masses(seconds: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
    r"""
    The number of sampled programs that each ended program stands for.

    Every program starts with a mass of 1. A running program will take longer than it has so far, like the longer
    programs that have ended: from the shortest to the longest, its mass is shared among all longer programs. This is
    the estimator of Kaplan and Meier (1958) for the distribution of Δt: with $n_i$ programs known to run at least as
    long as program $i$,

    $$
    m_i = \frac{N}{n_i} \prod_{j < i,\ j \text{ ended}} \Big(1 - \frac{1}{n_j}\Big).
    $$

    Args:
        seconds (`torch.Tensor` of shape `(N,)`):
            Δt of a program that has ended, otherwise how long it has run so far.
        ended (`torch.Tensor` of shape `(N,)`):
            Whether it has ended.

    Returns:
        `torch.Tensor` of shape `(N,)`:
            The masses: 1 each if all have ended; 0 for running programs. They sum to N, minus the mass of programs
            that have run for longer than any that has ended.
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
    """
    The three quartiles of the distribution estimated by [`kaplan_meier_masses`]; a quartile beyond all ended programs
    is the longest time of all.
    """
    order = torch.argsort(seconds)
    shares = kaplan_meier_masses(seconds, ended)[order].cumsum(0)
    quarters = torch.tensor([0.25, 0.5, 0.75], dtype=shares.dtype) - 1e-9  # sums of masses are not exact
    places = torch.searchsorted(shares, len(order) * quarters).clamp(max=len(order) - 1)
    return seconds[order][places]


def inclusion_probabilities(
    durations: torch.Tensor, seconds: torch.Tensor, ended: torch.Tensor, trained: torch.Tensor
) -> torch.Tensor:
    r"""
    P(already trained | Δt), estimated from recently sampled rollouts.

    The probability is the number trained on divided by the number sampled, by duration. Sampled programs are counted
    by their [`kaplan_meier_masses`], because running programs have no Δt yet. A longer program is never more likely to
    have been trained on than a shorter one, so the estimate is the isotonic regression: the decreasing function $p$
    that minimises

    $$
    \sum_{i \text{ ended}} m_i \Big(\frac{\text{trained}_i}{m_i} - p(\Delta t_i)\Big)^2,
    $$

    which is piecewise constant in Δt, with the value trained / sampled on each piece.

    Args:
        durations (`torch.Tensor` of shape `(B,)`):
            Δt of units (rollouts, or groups of them) that were trained on; NaN where it is unknown.
        seconds (`torch.Tensor` of shape `(N,)`):
            All sampled units, including those: Δt if the unit has ended, otherwise how long it has run so far.
        ended (`torch.Tensor` of shape `(N,)`):
            Whether it has ended.
        trained (`torch.Tensor` of shape `(N,)`):
            Whether it has been trained on.

    Returns:
        `torch.Tensor` of shape `(B,)`: The probabilities; NaN where Δt is unknown.
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
    [`~trl_mle.trainer.duration_weights`] with 1 / P(already trained | Δt) instead of Δt, which corrects the bias
    against slow programs (Horvitz and Thompson, 1952).

    Args:
        durations (`torch.Tensor` of shape `(B,)`):
            Δt of the unit that each rollout belongs to; NaN where it is unknown.
        seconds (`torch.Tensor` of shape `(N,)`), ended (`torch.Tensor` of shape `(N,)`), trained (`torch.Tensor` of shape `(N,)`):
            All sampled units, as for [`inclusion_probabilities`].
        low (`float`, *optional*), high (`float`, *optional*):
            Smallest and largest weight.

    Returns:
        `torch.Tensor` of shape `(B,)`:
            The weights. Unless a bound clips, their mean over everything trained on so far is 1. All are 1 if nothing
            is missing, or if what is missing may be so by chance, see [`falls_by_chance`]; unknown Δt has weight 1.
    """
    both = torch.cat([durations.to(seconds), seconds[ended]])  # fitted once
    probabilities = inclusion_probabilities(both, seconds, ended, trained)
    of_ended = probabilities[len(durations) :]
    if falls_by_chance(of_ended, seconds[ended], kaplan_meier_masses(seconds, ended)[ended]):
        return torch.ones_like(durations)
    mean = (1 / of_ended[trained[ended]]).mean().item()
    return duration_weights((1 / probabilities[: len(durations)]).to(durations), "linear", low, high, mean)


def falls_by_chance(probabilities: torch.Tensor, seconds: torch.Tensor, masses: torch.Tensor) -> bool:
    r"""
    Whether estimated probabilities fall with Δt no more than they would if they did not depend on it.

    An isotonic regression finds a slope in pure noise, most of all early in a run: the fit to $n$ independent values of
    variance $\sigma^2$ varies around their mean by

    $$
    \mathbb{E} \sum_i m_i (p_i - \bar p)^2 = \sigma^2 \Big(\frac12 + \frac13 + … + \frac1n\Big),
    $$

    for equal masses, because it has $1 + \frac12 + … + \frac1n$ pieces on average. Here $\sigma^2 = \bar p (1 - \bar p)$. Up to
    three times as much may be chance; in simulations, chance alone exceeds that in 1 to 10% of cases.

    Args:
        probabilities (`torch.Tensor` of shape `(N,)`):
            Those that [`inclusion_probabilities`] estimates for all units that have ended.
        seconds (`torch.Tensor` of shape `(N,)`):
            Their Δt.
        masses (`torch.Tensor` of shape `(N,)`):
            Their [`kaplan_meier_masses`].
    """
    if not len(seconds):
        return True
    mean = (masses * probabilities).sum() / masses.sum()
    explained = (masses * (probabilities - mean) ** 2).sum()
    by_chance = mean * (1 - mean) * sum(1 / i for i in range(2, len(seconds.unique()) + 1))
    return bool(explained <= CHANCE * by_chance)
