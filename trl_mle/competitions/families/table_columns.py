"""The columns of a generated task: numbers, names and notes."""

import numpy as np
import pandas as pd

from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS, Domain, Number
from trl_mle.competitions.mirrors.mirror import exact_shares


WHOLE = ("", "days", "nights", "months", "years")  # units of whole numbers


def draw_numbers(domain: Domain, random: np.random.RandomState) -> tuple[list[Number], list[Number]]:
    """Four columns that may matter, of which the third has another unit, and one to three that do not."""
    numbers = [domain.numbers[i] for i in random.permutation(len(domain.numbers))]
    typed = next(number for number in numbers if number.unit in OTHER_UNITS)
    rest = sorted((number for number in numbers if number is not typed), key=lambda number: not number.unit)
    main = [rest[0], rest[1], typed, rest[2]]
    others = rest[3:]
    return main, [others[i] for i in sorted(random.choice(len(others), random.randint(1, 4), replace=False))]


def measured(number: Number, latent: np.ndarray) -> pd.Series:
    """A column of measurements, from standard normal values."""
    whole = number.unit in WHOLE
    if number.skewed:
        values, spread = number.centre * np.exp(number.spread * latent), number.centre * number.spread
    else:
        values, spread = number.centre + number.spread * latent, number.spread
    decimals = 0 if whole else max(0, 2 - int(np.floor(np.log10(spread))))
    if number.unit != "c":
        values = values.clip(10.0**-decimals, 100 if number.unit == "pct" else None)
    column = pd.Series(values.round(decimals))
    return column if decimals else column.astype(int)


def latent_values(number: Number, column: pd.Series) -> np.ndarray:
    """What [`measured`] has made the column of, but for what was lost in rounding: nothing depends on that."""
    values = column.to_numpy(float)
    return (np.log(values / number.centre) if number.skewed else values - number.centre) / number.spread


def draw_names(
    structure: Structure, rows: int, random: np.random.RandomState
) -> tuple[list[np.ndarray], dict[str, pd.Series]]:
    """Two or three columns of names: their codes, and themselves."""
    domain = DOMAINS[structure.domain]
    count = random.randint(1, 3)
    chosen = [list(domain.categories)[i] for i in sorted(random.choice(len(domain.categories), count, replace=False))]
    columns = {name: domain.categories[name] for name in chosen} | dict([domain.ordered])
    codes = [exact_shares(list(random.uniform(0.5, 1.5, len(names))), rows, random) for names in columns.values()]
    tables = {
        column: pd.Series(np.array(names, dtype=object)[code])
        for (column, names), code in zip(columns.items(), codes, strict=True)
    }
    return codes, tables


def draw_texts(phrases: np.ndarray, words: tuple[str, ...], random: np.random.RandomState) -> pd.Series:
    """Notes that hold the phrases of their rows, in any order."""
    order = random.random_sample(phrases.shape).argsort(axis=1)
    joints = np.array([", ", "; ", " - ", ". "])[random.randint(0, 4, len(phrases))]
    texts = [
        str(joint).join(words[i] for i in places if has[i])
        for has, places, joint in zip(phrases, order, joints, strict=True)
    ]
    return pd.Series([text[:1].upper() + text[1:] if text else "none" for text in texts])
