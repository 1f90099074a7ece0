from fractions import Fraction
from itertools import combinations
from math import comb
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_mle.evaluation import best_of_k
from trl_mle.evaluation.best_of_k import _weights, powers_of_two


TENTHS = st.integers(-9, 9).map(lambda score: score / 10)


def exhaustive(pairs, k, higher_is_better):
    """Over all subsets: the share with a valid sample, and the mean reported score of the best; ties are averaged."""
    best = []
    for subset in combinations(pairs, k):
        valid = [pair for pair in subset if pair is not None]
        top = (max if higher_is_better else min)((score for score, _ in valid), default=None)
        best.append(fmean(reported for score, reported in valid if score == top) if valid else None)
    found = [score for score in best if score is not None]
    return len(found) / len(best), fmean(found) if found else None


@given(
    st.lists(st.none() | st.tuples(st.sampled_from([0.1, 0.2, 0.3]), TENTHS), min_size=1, max_size=7), st.booleans()
)
def test_the_estimator_equals_the_mean_over_all_subsets(pairs, higher_is_better):
    """With ties, with invalid samples, in both directions, for every k; chosen and reported by one score or by two."""
    scores, reported = ([pair and pair[i] for pair in pairs] for i in (0, 1))
    alike = [None if score is None else (score, score) for score in scores]
    numbers = [7.0 if score is None else score for score in reported]  # an invalid sample's counts for nothing
    for expected, other in ((alike, None), (pairs, reported), (pairs, numbers)):
        for point in best_of_k(scores, range(1, len(pairs) + 1), higher_is_better, reported=other, resamples=0):
            valid_rate, score = exhaustive(expected, point.k, higher_is_better)
            assert point.valid_rate == pytest.approx(valid_rate)
            assert point.score == pytest.approx(score)


def test_the_best_of_luck_is_reported_without_it():
    """All programs are alike: the best of many by one noisy score looks good by that score, but not by another."""
    noise = np.random.default_rng(0).normal(size=(2, 400)).tolist()
    [lucky] = best_of_k(noise[0], [64], True)
    [honest] = best_of_k(noise[0], [64], True, reported=noise[1])
    assert lucky.score > 2
    assert honest.low < 0 < honest.high


@pytest.mark.parametrize("k", [1, 1280, 5120])
def test_weights_of_many_samples_equal_binomial_coefficients(k):
    n = 5120
    weights = _weights(n, k)
    for j in (0, k - 2, k - 1, (n + k) // 2, n - 2, n - 1):
        if 0 <= j < n:
            exact = float(Fraction(comb(j, k - 1), comb(n, k)))
            assert weights[j] == pytest.approx(exact, rel=1e-11, abs=1e-300)
    assert weights.sum() == pytest.approx(1.0, rel=1e-11)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """The mean best of 2 draws from a uniform distribution is 2/3."""
    rng = np.random.default_rng(1)
    covered = 0
    for i in range(100):
        [point] = best_of_k([float(x) for x in rng.random(40)], [2], True, seed=i)
        covered += point.low <= 2 / 3 <= point.high
    assert covered >= 88


def test_the_sizes_of_the_curve():
    assert powers_of_two(600) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]
    [point] = best_of_k([0.1, None, 0.3], [2], True, resamples=0)
    assert (point.low, point.high) == (None, None)
    assert best_of_k([], powers_of_two(0), True) == []
    with pytest.raises(ValueError, match="cannot be estimated from 2 samples"):
        best_of_k([0.1, 0.2], [3], True)
