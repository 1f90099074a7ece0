"""The settings of the generated tasks: stories, names of columns, and phrases of texts, from domains.yaml."""

from pathlib import Path
from typing import NamedTuple

from trl_mle.data_files import read_data


class Number(NamedTuple):
    """A column of measurements."""

    name: str  # without the unit
    unit: str  # which is part of the column's name; empty for a count or an index
    centre: float  # the median, in that unit
    spread: float  # the standard deviation in that unit; of the logarithm where `skewed`
    skewed: bool = False  # whether its logarithm has a normal distribution, and not the value itself

    @property
    def column(self) -> str:
        """Its name in a file."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


class Domain(NamedTuple):
    title: str  # of the description
    row: str  # what a row stands for
    rows: str  # its plural
    story: str  # one or two sentences that lead to the task
    numbers: tuple[Number, ...]  # at least seven, of which three have a unit of `OTHER_UNITS`
    categories: dict[str, tuple[str, ...]]  # columns with names, and the names
    ordered: tuple[str, tuple[str, ...]]  # a column with names that have an order, and the names from low to high
    group: tuple[str, tuple[str, ...]]  # a column with codes of places or persons, and the prefixes of the codes
    date: str  # a column with days
    text: tuple[str, tuple[str, ...]]  # a column with notes, and the phrases that they are made of
    # The targets by form: a column, its meaning, and the labels of a kind. Grades are 1 to 5, amounts positive
    yes_or_no: tuple[str, str]
    kind: tuple[str, str, tuple[str, ...]]
    grade: tuple[str, str]
    amount: tuple[str, str]
    value: tuple[str, str]
    leak: str  # a column that is filled in afterwards
    number: str  # a column with a running number


# What a unit may be mistaken for, and how many of these it has
OTHER_UNITS = {
    "km": ("m", 1000), "m": ("cm", 100), "mm": ("cm", 0.1), "kg": ("g", 1000), "g": ("mg", 1000), "l": ("ml", 1000),
    "h": ("min", 60), "min": ("s", 60), "mw": ("kw", 1000),
}  # fmt: skip

DOMAINS = {
    name: Domain(**entry | {"numbers": tuple(Number(*number) for number in entry["numbers"])})
    for name, entry in read_data(Path(__file__).with_name("domains.yaml")).items()
}
