"""Signals: what the target of a generated task depends on, before it is scaled and noise is added."""

from typing import NamedTuple

import numpy as np

from trl_mle.competitions.families.structure import DEPENDENCES, Structure


class Features(NamedTuple):
    """What the target depends on, a row for each: main numbers, standardised; codes of names; days; phrases."""

    numbers: np.ndarray
    levels: list[np.ndarray]
    days: np.ndarray
    phrases: np.ndarray


def _linear(features: Features, random: np.random.RandomState) -> np.ndarray:
    weights = random.uniform(0.5, 1.3, 4) * random.choice([-1, 1], 4)
    signal = (features.numbers * weights).sum(axis=1)
    for codes in features.levels:
        signal += random.normal(0, 0.6, codes.max() + 1)[codes]
    return signal


def _thresholds(features: Features, random: np.random.RandomState) -> np.ndarray:
    """Seven trees of four leaves each."""
    signal = np.zeros(len(features.days))
    for _ in range(7):
        above = features.numbers[:, random.randint(0, 4, 3)] > random.uniform(-0.9, 0.9, 3)
        signal += random.normal(size=4)[2 * above[:, 0] + np.where(above[:, 0], above[:, 1], above[:, 2])]
    for codes in features.levels:
        signal += random.normal(0, 0.6, codes.max() + 1)[codes]
    return signal


def _interactions(features: Features, random: np.random.RandomState) -> np.ndarray:
    """Products of two numbers, and a slope that depends on a name."""
    a, b, c, d = random.permutation(4)
    numbers, codes = features.numbers, features.levels[0]
    signs = random.choice([-1, 1], 2)
    slopes = random.permutation(np.linspace(-1.2, 1.2, codes.max() + 1))
    signal = signs[0] * numbers[:, a] * numbers[:, b] + 0.8 * signs[1] * numbers[:, c] * numbers[:, a]
    return signal + slopes[codes] * numbers[:, d]


def _calendar(features: Features, random: np.random.RandomState) -> np.ndarray:
    """Days of the week and seasons, and half as much that is linear."""
    weekdays = random.permutation(np.linspace(-1.4, 1.4, 7))[(features.days + 6) % 7]
    season = 1.3 * np.cos(2 * np.pi * (features.days - random.randint(365)) / 365.25)
    return weekdays + season + 0.45 * _linear(features, random)


def _words(features: Features, random: np.random.RandomState) -> np.ndarray:
    """Phrases, and half as much that is linear."""
    count = features.phrases.shape[1]
    weights = random.permutation(np.where(np.arange(count) < 5, 0, random.uniform(1.2, 2.6, count)))
    weights = weights * random.choice([-1, 1], count)
    return (features.phrases * weights).sum(axis=1) + 0.7 * _linear(features, random)


SIGNALS = dict(zip(DEPENDENCES, (_linear, _thresholds, _interactions, _calendar, _words), strict=True))


def draw_signal(
    structure: Structure, features: Features, group: np.ndarray | None, random: np.random.RandomState
) -> np.ndarray:
    """The standardised signal, to which the group adds where test.csv has unseen ones."""
    signal = standardised(SIGNALS[structure.dependence](features, random))
    if group is not None:
        signal = signal + random.permutation(np.linspace(-1.3, 1.3, group.max() + 1))[group]
    return standardised(signal)


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()
