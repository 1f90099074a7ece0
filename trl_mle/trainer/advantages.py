"""Advantages with separate parts for progress towards a valid submission and for quality. Derivations:
docs/objective.md."""

from math import comb

import torch
from scipy.stats import rankdata


# Scale of the quality part; the progress part has a deviation of 1. With 10 (and k = 32) fewer programs were valid
QUALITY_SCALE = 3.0
# By how much a valid completion's progress exceeds the best failed one's, at least; a milestone is worth 0.1
VALID_STEP = 0.3


def best_of_k_gains(values: torch.Tensor, k: int) -> torch.Tensor:
    r"""
    The gain of each value for the best of k: summed over the subsets $I$ of size $k$ that contain it,

    $$
    \text{gain}_i = \frac{1}{\binom{n}{k}} \sum_{I \ni i} \big(\max I - \max I \setminus \{i\}\big).
    $$

    Times $n$ they are unbiased weights of $\nabla \log \pi$, in a mean over the samples, for the gradient of the
    expected best of k; see https://huggingface.co/papers/2505.15201 and https://huggingface.co/papers/2510.23393.

    Args:
        values (`torch.Tensor` of shape `(n,)`):
            Finite values, larger is better.
        k (`int`):
            Size of the subsets, from 2 to n.

    Returns:
        `torch.Tensor` of shape `(n,)`: The gains, in float64; equal values have equal gains.
    """
    n = len(values)
    if not 2 <= k <= n:
        raise ValueError(f"k must be from 2 to the {n} values, got {k}")
    values, order = values.double().sort()
    # A gain is a sum of gaps between neighbours, each counted for the subsets whose other members lie below it
    shares = torch.tensor([comb(below, k - 1) / comb(n, k) for below in range(1, n)], dtype=torch.float64)
    gains = torch.zeros_like(values)
    gains[order[1:]] = (values.diff() * shares).cumsum(0)
    return gains


def group_advantages(
    progress: torch.Tensor, quality: torch.Tensor, max_at_k: int | None = None, program: torch.Tensor | None = None
) -> torch.Tensor:
    r"""
    Advantages of a group, in two parts: the progress of each completion, and the relative quality of the valid ones,

    $$
    \hat{A}_i = \frac{p_i - \bar{p}}{\max(s_p, 0.3)} + q_i - \bar{q},
    $$

    where $q_i = 0$ for invalid completions, and $s_p$ is a standard deviation. With the ranks of the $m$ valid
    completions, $u_i = (\text{mid-rank}_i - \frac12) / m$, where equal programs share their mean rank, $q_i$ is
    $3 \, u_i$ for `mean_rank`, and $3 \, m$ times the [`best_of_k_gains`] of $u$ for `max_at_k`, with $m < k$ of the
    best of $m$.

    Args:
        progress (`torch.Tensor` of shape `(n,)`):
            Larger is better, in units of the reward, and largest for valid completions.
        quality (`torch.Tensor` of shape `(n,)`):
            Quality of the valid completions, larger is better; NaN for all others. Only the order matters.
        max_at_k (`int`, *optional*):
            k of `max_at_k`, at least 2; `None` for `mean_rank`.
        program (`torch.Tensor` of shape `(n,)`, *optional*):
            Integers that are equal for equal programs.

    Returns:
        `torch.Tensor` of shape `(n,)`: The advantages, in float64; exactly 0 if all completions are equal.
    """
    parts = torch.zeros(len(progress), dtype=torch.float64)
    valid = ~quality.isnan()
    if valid.any():
        parts[valid] = _quality_part(quality[valid], max_at_k, None if program is None else program[valid])
    return standardized(progress, VALID_STEP) + _centred(parts)


def standardized(values: torch.Tensor, least: float = 0.0) -> torch.Tensor:
    """Values minus their mean and divided by their standard deviation, which is `least` at least, in float64. Exactly
    0 if all are equal; no epsilon shrinks small differences."""
    centred = _centred(values.double())
    return centred if not centred.any() else centred / centred.std().clamp(min=least)


def _centred(values: torch.Tensor) -> torch.Tensor:
    # The mean of equal numbers may differ from them
    return torch.zeros_like(values) if (values == values[0]).all() else values - values.mean()


def _quality_part(quality: torch.Tensor, max_at_k: int | None, program: torch.Tensor | None) -> torch.Tensor:
    m = len(quality)
    mid_ranks = torch.from_numpy(rankdata(quality)) - 0.5  # from 1/2 on; equal values share their mean rank
    ranks = _shared(mid_ranks, program) / m
    if max_at_k is None:
        return QUALITY_SCALE * ranks
    if m == 1:
        return torch.zeros_like(ranks)
    return QUALITY_SCALE * m * best_of_k_gains(ranks, min(max_at_k, m))


def _shared(ranks: torch.Tensor, program: torch.Tensor | None) -> torch.Tensor:
    if program is None:
        return ranks
    _, which, count = program.unique(return_inverse=True, return_counts=True)
    return (torch.zeros(len(count), dtype=ranks.dtype).index_add(0, which, ranks) / count)[which]
