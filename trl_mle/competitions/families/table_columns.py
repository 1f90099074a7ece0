"""The columns of a generated task, before any trap: numbers, names, days and notes."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS, Domain, Number
from trl_mle.competitions.mirrors.mirror import exact_shares


SIZES = (900, 1200, 1500)  # rows of train.csv and test.csv together, of which a third is the latter
CODES = (-999, -99, -1000)  # of a number that nobody took
WHOLE = ("", "days", "nights", "months", "years")  # units of whole numbers


class Columns(NamedTuple):
    """The columns of all rows, and what the target depends on."""

    table: dict[str, pd.Series]
    numbers: np.ndarray  # the four that matter, standardised
    levels: list[np.ndarray]  # codes of the names
    days: np.ndarray
    phrases: np.ndarray  # whether each is in the note
    main: list[Number]  # four numbers: with gaps, with a code for gaps, with another unit, with a shift, as traps want
    code: int
    missing: np.ndarray  # where the first two lack, should gaps be a trap
    shifted: np.ndarray  # the latent values of the fourth
    group: np.ndarray  # of places or persons, should unseen ones be a trap


def draw_columns(structure: Structure, random: RandomState) -> Columns:
    domain, rows = DOMAINS[structure.domain], int(random.choice(SIZES))
    main, others = _draw_numbers(domain, random)
    code = int(random.choice(CODES))
    # Standard normal and a little correlated, as measurements of one thing are
    latent = 0.85 * random.normal(size=(rows, len(main) + len(others))) + 0.53 * random.normal(size=(rows, 1))
    table = {number.column: _measured(number, latent[:, i]) for i, number in enumerate([*main, *others])}
    numbers = np.column_stack([_latent_values(number, table[number.column]) for number in main])
    missing = random.random_sample((2, rows)) < 0.2
    if "missing" in structure.traps:  # counts like an extreme value: a median in its place loses what it says
        for column in (0, 1):
            numbers[missing[column], column] = random.choice([-1.8, 1.8])
    levels, names = _draw_names(domain, rows, random)
    days, phrases = random.randint(0, 730, rows), random.random_sample((rows, len(domain.text[1]))) < 0.16
    table |= names
    if structure.dependence == "calendar" or random.random_sample() < 0.25:
        table[domain.date] = pd.Series((np.datetime64("2023-01-01") + days).astype(str))
    if structure.dependence == "words" or random.random_sample() < 0.2:
        table[domain.text[0]] = _draw_notes(phrases, domain.text[1], random)
    group = random.randint(0, len(domain.group[1]), rows)
    return Columns(table, numbers, levels, days, phrases, main, code, missing, latent[:, 3], group)


def _draw_numbers(domain: Domain, random: RandomState) -> tuple[list[Number], list[Number]]:
    """Four columns that may matter, of which the third has another unit, and one to three that do not."""
    numbers = [domain.numbers[i] for i in random.permutation(len(domain.numbers))]
    typed = next(number for number in numbers if number.unit in OTHER_UNITS)
    rest = sorted((number for number in numbers if number is not typed), key=lambda number: not number.unit)
    others = rest[3:]
    chosen = sorted(random.choice(len(others), random.randint(1, 4), replace=False))
    return [rest[0], rest[1], typed, rest[2]], [others[i] for i in chosen]


def _measured(number: Number, latent: np.ndarray) -> pd.Series:
    """A column of measurements, from standard normal values."""
    if number.skewed:
        values, spread = number.centre * np.exp(number.spread * latent), number.centre * number.spread
    else:
        values, spread = number.centre + number.spread * latent, number.spread
    decimals = 0 if number.unit in WHOLE else max(0, 2 - int(np.floor(np.log10(spread))))
    if number.unit != "c":
        values = values.clip(10.0**-decimals, 100 if number.unit == "pct" else None)
    column = pd.Series(values.round(decimals))
    return column if decimals else column.astype(int)


def _latent_values(number: Number, column: pd.Series) -> np.ndarray:
    """What [`_measured`] has made the column of, but for what was lost in rounding: nothing depends on that."""
    values = column.to_numpy(float)
    return (np.log(values / number.centre) if number.skewed else values - number.centre) / number.spread


def _draw_names(domain: Domain, rows: int, random: RandomState) -> tuple[list[np.ndarray], dict[str, pd.Series]]:
    """Two or three columns of names: their codes, and themselves."""
    count = random.randint(1, 3)
    chosen = [list(domain.categories)[i] for i in sorted(random.choice(len(domain.categories), count, replace=False))]
    columns = {name: domain.categories[name] for name in chosen} | dict([domain.ordered])
    codes = [exact_shares(list(random.uniform(0.5, 1.5, len(names))), rows, random) for names in columns.values()]
    named = zip(columns.items(), codes, strict=True)
    return codes, {column: pd.Series(np.array(names, dtype=object)[code]) for (column, names), code in named}


def _draw_notes(phrases: np.ndarray, words: tuple[str, ...], random: RandomState) -> pd.Series:
    """Notes that hold the phrases of their rows, in any order."""
    order = random.random_sample(phrases.shape).argsort(axis=1)
    joints = np.array([", ", "; ", " - ", ". "])[random.randint(0, 4, len(phrases))]
    texts = [
        str(joint).join(words[i] for i in places if has[i])
        for has, places, joint in zip(phrases, order, joints, strict=True)
    ]
    return pd.Series([text[:1].upper() + text[1:] if text else "none" for text in texts])
