"""Signals: what the target of a generated task depends on, before it is scaled and noise is added."""

import numpy as np
from numpy.random import RandomState

from trl_mle.competitions.families.structure import DEPENDENCES, Structure
from trl_mle.competitions.families.table_columns import Columns


def _linear(columns: Columns, random: RandomState) -> np.ndarray:
    weights = random.uniform(0.5, 1.3, 4) * random.choice([-1, 1], 4)
    return _add_names((columns.numbers * weights).sum(axis=1), columns, random)


def _thresholds(columns: Columns, random: RandomState) -> np.ndarray:
    """Seven trees of four leaves each."""
    signal = np.zeros(len(columns.days))
    for _ in range(7):
        above = columns.numbers[:, random.randint(0, 4, 3)] > random.uniform(-0.9, 0.9, 3)
        signal += random.normal(size=4)[2 * above[:, 0] + np.where(above[:, 0], above[:, 1], above[:, 2])]
    return _add_names(signal, columns, random)


def _add_names(signal: np.ndarray, columns: Columns, random: RandomState) -> np.ndarray:
    for codes in columns.levels:
        signal += random.normal(0, 0.6, codes.max() + 1)[codes]
    return signal


def _interactions(columns: Columns, random: RandomState) -> np.ndarray:
    """Products of two numbers, and a slope that depends on a name."""
    a, b, c, d = random.permutation(4)
    numbers, codes = columns.numbers, columns.levels[0]
    signs = random.choice([-1, 1], 2)
    slopes = random.permutation(np.linspace(-1.2, 1.2, codes.max() + 1))
    signal = signs[0] * numbers[:, a] * numbers[:, b] + 0.8 * signs[1] * numbers[:, c] * numbers[:, a]
    return signal + slopes[codes] * numbers[:, d]


def _calendar(columns: Columns, random: RandomState) -> np.ndarray:
    """Days of the week and seasons, and half as much that is linear."""
    weekdays = random.permutation(np.linspace(-1.4, 1.4, 7))[(columns.days + 6) % 7]
    season = 1.3 * np.cos(2 * np.pi * (columns.days - random.randint(365)) / 365.25)
    return weekdays + season + 0.45 * _linear(columns, random)


def _words(columns: Columns, random: RandomState) -> np.ndarray:
    """Phrases, and half as much that is linear."""
    count = columns.phrases.shape[1]
    weights = random.permutation(np.where(np.arange(count) < 5, 0, random.uniform(1.2, 2.6, count)))
    weights = weights * random.choice([-1, 1], count)
    return (columns.phrases * weights).sum(axis=1) + 0.7 * _linear(columns, random)


SIGNALS = dict(zip(DEPENDENCES, (_linear, _thresholds, _interactions, _calendar, _words), strict=True))


def draw_signal(structure: Structure, columns: Columns, random: RandomState) -> np.ndarray:
    """The standardised signal, to which the group adds where test.csv has unseen ones."""
    signal = standardised(SIGNALS[structure.dependence](columns, random))
    if "unseen" in structure.traps:
        signal = signal + random.permutation(np.linspace(-1.3, 1.3, columns.group.max() + 1))[columns.group]
    return standardised(signal)


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()
