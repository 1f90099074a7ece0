"""Estimates the expected best of k samples from n samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


RESAMPLES = 1000  # of the bootstrap
CONFIDENCE = 0.95


@dataclass(frozen=True)
class BestOfK:
    """The best of k sampled programs."""

    k: int
    valid_rate: float  # the probability that at least one of them is valid
    score: float | None  # expected, given that one is valid; the reported one, if programs are chosen by another
    low: float | None  # ends of the bootstrap interval
    high: float | None


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, … and `n` itself."""
    return sorted({*(2**i for i in range(n.bit_length())), n} - {0})


def best_of_k(
    scores: Sequence[float | None],
    ks: Sequence[int],
    higher_is_better: bool,
    seed: int = 0,
    reported: Sequence[float | None] | None = None,
    resamples: int = RESAMPLES,
) -> list[BestOfK]:
    r"""
    Estimates the expected best of k from n ≥ k samples.

    Rank the samples from worst to best, invalid ones first. Sample j, which has j worse samples, is the best in \\(
    \binom{j}{k-1} \\) of the \\( \binom{n}{k} \\) subsets of size k; with \\( w_j \\) the ratio of the two,

    $$
    \Pr[\text{valid}] = \sum_{j \text{ valid}} w_j, \qquad
    \mathbb{E}[\text{best} \mid \text{valid}] = \frac{\sum_{j \text{ valid}} w_j s_j}{\sum_{j \text{ valid}} w_j}.
    $$

    These are exact averages over all subsets. The first is unbiased (it is pass@k of
    https://huggingface.co/papers/2107.03374), and so is the numerator of the second. If another score than \\( s \\)
    is reported, it is in the numerator, as its mean over samples with equal \\( s \\). The interval is the percentile
    bootstrap over the samples, which is too narrow for k near n.

    Args:
        scores (`Sequence[float | None]`), ks (`Sequence[int]`):
            The score of each sample, `None` if it is not valid; sizes from 1 to the number of samples.
        higher_is_better (`bool`), reported (`Sequence[float | None]`, *optional*):
            Whether a larger score is better; the score to report, if it differs from the score to choose by.
        seed (`int`, *optional*, defaults to `0`), resamples (`int`, *optional*, defaults to `1000`):
            Seed and resamples of the bootstrap.
    """
    if not ks:
        return []
    n = len(scores)
    if not all(1 <= k <= n for k in ks):
        raise ValueError(f"the best of {min(ks)} to {max(ks)} cannot be estimated from {n} samples")
    values = np.array(scores, float)  # NaN for None
    order = np.argsort(values if higher_is_better else -values, kind="stable")
    order = np.roll(order, np.isnan(values).sum())  # argsort puts NaN last
    ranked = values[order]
    weights = np.array([_weights(n, k) for k in ks])
    # Ranks sort like their samples
    ranks = np.sort(np.random.default_rng(seed).integers(0, n, (resamples, n)), axis=1)
    shown, shown_resampled = ranked[np.newaxis], ranked[ranks]
    if reported is not None:
        of_ranks = np.where(np.isnan(ranked), np.nan, np.array(reported, float)[order])
        _, equals = np.unique(ranked, return_inverse=True)
        shown = _means_of_equals(of_ranks[np.newaxis], equals[np.newaxis])
        shown_resampled = _means_of_equals(of_ranks[ranks], equals[ranks])
    valid_rates, best = _averages(shown, weights)
    _, resampled = _averages(shown_resampled, weights)
    tail = (1 - CONFIDENCE) / 2
    ends = pd.DataFrame(resampled).quantile([tail, 1 - tail]).to_numpy()
    points = []
    for k, rate, *figures in zip(ks, valid_rates[0], best[0], *ends, strict=True):
        points.append(BestOfK(k, float(rate), *(None if np.isnan(figure) else float(figure) for figure in figures)))
    return points


def _weights(n: int, k: int) -> np.ndarray:
    """
    The weights \\( w_j \\), of shape (n,), from \\( w_{n-1} = k / n \\) and \\( w_{j-1} = w_j (j - k + 1) / j \\).
    """
    j = np.arange(n - 1, k - 1, -1)
    return np.concatenate([np.zeros(k - 1), (k / n * np.cumprod(np.append(1.0, (j - k + 1) / j)))[::-1]])


def _averages(ranked: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row of samples and each k: the share of subsets with a valid sample, and their mean best score."""
    valid = ~np.isnan(ranked)
    rates = np.minimum(valid @ weights.T, 1.0)
    sums = np.where(valid, ranked, 0.0) @ weights.T
    return rates, np.divide(sums, rates, out=np.full_like(sums, math.nan), where=rates > 0)


def _means_of_equals(reported: np.ndarray, equals: np.ndarray) -> np.ndarray:
    """For each row of samples, replaces each sample by the mean over those with the same number in `equals`."""
    groups = equals + np.arange(len(equals))[:, np.newaxis] * (equals.max(initial=0) + 1)
    sums = np.bincount(groups.ravel(), weights=reported.ravel())
    counts = np.bincount(groups.ravel())
    return sums[groups] / counts[groups]
