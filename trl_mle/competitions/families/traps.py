"""The traps of generated tasks."""

import numpy as np
import pandas as pd

from trl_mle.competitions.families.signals import standardised
from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.target import LEAST_ROWS, Target
from trl_mle.competitions.families.words import OTHER_UNITS, Domain


def mistaken(
    structure: Structure, target: Target, where: np.ndarray, share: float, random: np.random.RandomState
) -> pd.Series:
    """Labels of which a share is wrong: a label drawn at random, or a number that lies far off."""
    labels, classes = target.labels, target.classes
    if classes is None:
        wrong = where & (random.random_sample(len(labels)) < share / 3)
        if structure.form == "amount":
            return labels.mask(wrong, (labels * random.choice([1 / 30, 30], len(labels))).clip(0.01).round(2))
        return labels.mask(wrong, (labels + random.choice([-8, 8], len(labels))).round(3))
    wrong = where & (random.random_sample(len(labels)) < share)
    for label in range(int(classes.max()) + 1):  # of each class some remain
        wrong[np.flatnonzero(where & (classes == label))[:LEAST_ROWS]] = False
    kinds = pd.Series([labels[classes == label].iloc[0] for label in range(int(classes.max()) + 1)])
    drawn = kinds.iloc[random.randint(0, len(kinds), len(labels))].reset_index(drop=True)
    return labels.mask(wrong, drawn)


def as_numbers(labels: pd.Series, structure: Structure, random: np.random.RandomState) -> np.ndarray:
    """The recorded labels as standardised numbers; those of kinds in any order."""
    if structure.form == "kind":
        codes, kinds = pd.factorize(labels, sort=True)
        return standardised(random.permutation(len(kinds))[codes].astype(float))
    numbers = labels.to_numpy(float)
    return standardised(np.log(numbers) if structure.form == "amount" else numbers)


def leak(outcome: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Reveals the outcome; in the test rows, that of another row."""
    leaked = outcome + 0.1 * random.normal(size=len(outcome))
    leaked[in_test] = random.permutation(leaked[in_test])
    return pd.Series((40 + 12 * leaked).round(1))


def running_number(outcome: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Rises with the outcome, but not in the test rows."""
    numbers = np.empty(len(outcome), int)
    filed = outcome[~in_test] + 0.5 * random.normal(size=(~in_test).sum())
    numbers[~in_test] = filed.argsort(kind="stable").argsort()
    numbers[in_test] = random.permutation((~in_test).sum())[: in_test.sum()]
    return pd.Series(1000 + numbers)


def group_codes(domain: Domain, group: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Codes of which the prefix matters; a third of those in the test rows are not in the others."""
    number = np.where(in_test, random.randint(0, 24, len(group)), random.randint(0, 16, len(group)))
    places = np.array([10 + random.permutation(90)[:24] for _ in domain.group[1]])[group, number]
    return pd.Series([f"{domain.group[1][i]}-{place}" for i, place in zip(group, places, strict=True)])


def typed_in(values: pd.Series, unit: str, random: np.random.RandomState) -> pd.Series:
    """Measurements with their units, of which there are two, as different people write them."""
    other, factor = OTHER_UNITS[unit]
    style = random.random_sample((3, len(values)))
    texts = []
    for value, a, b, c in zip(values, *style, strict=True):
        number, name = (f"{value * factor:.10g}", other) if a < 0.35 else (f"{value:.10g}", unit)
        texts.append((number.replace(".", ",") if b < 0.25 else number) + ("" if c < 0.3 else " ") + name)
    return pd.Series(texts)


def carelessly(names: pd.Series, random: np.random.RandomState) -> pd.Series:
    """Names in small letters and in capitals, some with a blank behind them."""
    style = random.randint(0, 5, len(names))
    return names.mask(style == 1, names.str.upper()).mask(style == 2, names.str.title()).mask(style == 3, names + " ")
