"""The traps of generated tasks."""

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.families.signals import standardised
from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.table_columns import Columns
from trl_mle.competitions.families.target import LEAST_ROWS, Target
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS, Domain


def mistaken(structure: Structure, target: Target, where: np.ndarray, share: float, random: RandomState) -> pd.Series:
    """Labels of which a share is wrong: a label drawn at random, or a number that lies far off."""
    labels, classes = target.labels, target.classes
    if classes is None:
        wrong = where & (random.random_sample(len(labels)) < share / 3)
        if structure.form == "amount":
            return labels.mask(wrong, (labels * random.choice([1 / 30, 30], len(labels))).clip(0.01).round(2))
        return labels.mask(wrong, (labels + random.choice([-8, 8], len(labels))).round(3))
    wrong = where & (random.random_sample(len(labels)) < share)
    for label in np.unique(classes):  # of each class some remain
        wrong[np.flatnonzero(where & (classes == label))[:LEAST_ROWS]] = False
    kinds = labels.groupby(classes).first()
    return labels.mask(wrong, kinds.iloc[random.randint(0, len(kinds), len(labels))].reset_index(drop=True))


def set_traps(
    structure: Structure, columns: Columns, outcome: np.ndarray, is_test: np.ndarray, random: RandomState
) -> None:
    """Adds to the columns, and damages them, as the traps of the structure have it."""
    traps, domain, table = structure.traps, DOMAINS[structure.domain], columns.table
    empty, coded, typed, _ = columns.main
    if "leak" in traps:
        table[domain.leak] = _leak(outcome, is_test, random)
    if "number" in traps:
        table[domain.number] = _running_number(outcome, is_test, random)
    if "unseen" in traps:
        table[domain.group[0]] = _group_codes(domain, columns.group, is_test, random)
    if "missing" in traps:
        table[empty.column] = table[empty.column].mask(columns.missing[0])
        table[coded.column] = table[coded.column].mask(columns.missing[1], columns.code)
    if "units" in traps:
        category = next(name for name in domain.categories if name in table)
        table[typed.name] = _typed_in(table.pop(typed.column), typed.unit, random)
        table[category] = _carelessly(table[category], random)


def as_numbers(labels: pd.Series, structure: Structure, random: RandomState) -> np.ndarray:
    """The recorded labels as standardised numbers; those of kinds in any order."""
    if structure.form == "kind":
        codes, kinds = pd.factorize(labels, sort=True)
        return standardised(random.permutation(len(kinds))[codes].astype(float))
    numbers = labels.to_numpy(float)
    return standardised(np.log(numbers) if structure.form == "amount" else numbers)


def _leak(outcome: np.ndarray, in_test: np.ndarray, random: RandomState) -> pd.Series:
    """Reveals the outcome; in the test rows, that of another row."""
    leaked = outcome + 0.1 * random.normal(size=len(outcome))
    leaked[in_test] = random.permutation(leaked[in_test])
    return pd.Series((40 + 12 * leaked).round(1))


def _running_number(outcome: np.ndarray, in_test: np.ndarray, random: RandomState) -> pd.Series:
    """Rises with the outcome, but not in the test rows."""
    numbers = np.empty(len(outcome), int)
    filed = outcome[~in_test] + 0.5 * random.normal(size=(~in_test).sum())
    numbers[~in_test] = filed.argsort(kind="stable").argsort()
    numbers[in_test] = random.permutation((~in_test).sum())[: in_test.sum()]
    return pd.Series(1000 + numbers)


def _group_codes(domain: Domain, group: np.ndarray, in_test: np.ndarray, random: RandomState) -> pd.Series:
    """Codes of which the prefix matters; a third of those in the test rows are not in the others."""
    number = np.where(in_test, random.randint(0, 24, len(group)), random.randint(0, 16, len(group)))
    places = np.array([10 + random.permutation(90)[:24] for _ in domain.group[1]])[group, number]
    return pd.Series([f"{domain.group[1][i]}-{place}" for i, place in zip(group, places, strict=True)])


def _typed_in(values: pd.Series, unit: str, random: RandomState) -> pd.Series:
    """Measurements with their units, of which there are two, as different people write them."""
    other, factor = OTHER_UNITS[unit]
    style = random.random_sample((3, len(values)))
    texts = []
    for value, a, b, c in zip(values, *style, strict=True):
        number, name = (f"{value * factor:.10g}", other) if a < 0.35 else (f"{value:.10g}", unit)
        texts.append((number.replace(".", ",") if b < 0.25 else number) + ("" if c < 0.3 else " ") + name)
    return pd.Series(texts)


def _carelessly(names: pd.Series, random: RandomState) -> pd.Series:
    """Names in small letters and in capitals, some with a blank behind them."""
    style = random.randint(0, 5, len(names))
    return names.mask(style == 1, names.str.upper()).mask(style == 2, names.str.title()).mask(style == 3, names + " ")
