"""What the generated tasks are about: their stories, names of columns, and phrases of their texts, from domains.yaml."""

from pathlib import Path
from typing import Any, NamedTuple

from trl_mle.data_files import read_data


class Number(NamedTuple):
    """
    A column of measurements.

    Args:
        name (`str`):
            Its name, without the unit.
        unit (`str`):
            Its unit, which is part of the column's name; empty for a count or an index.
        centre (`float`):
            Median, in that unit.
        spread (`float`):
            Standard deviation in that unit; of the logarithm where `skewed`.
        skewed (`bool`, *optional*, defaults to `False`):
            Whether its logarithm has a normal distribution, and not the value itself.
    """

    name: str
    unit: str
    centre: float
    spread: float
    skewed: bool = False

    @property
    def column(self) -> str:
        """What it is called in a file."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


class Domain(NamedTuple):
    """
    A setting for tasks.

    Args:
        title (`str`):
            Heading of the description.
        row (`str`), rows (`str`):
            What a row stands for, in the singular and the plural.
        story (`str`):
            One or two sentences that lead to the task.
        numbers (`tuple[Number, ...]`):
            Measurements, at least seven, of which three have a unit of `OTHER_UNITS`.
        categories (`dict[str, tuple[str, ...]]`):
            Columns with names, and the names.
        ordered (`tuple[str, tuple[str, ...]]`):
            A column with names that have an order, and the names from low to high.
        group (`tuple[str, tuple[str, ...]]`):
            A column with codes of many places or persons, and the prefixes with which they begin.
        date (`str`):
            A column with days.
        text (`tuple[str, tuple[str, ...]]`):
            A column with notes, and the phrases that they are made of.
        yes_or_no (`tuple[str, str]`), kind (`tuple[str, str, tuple[str, ...]]`), grade (`tuple[str, str]`),
        amount (`tuple[str, str]`), value (`tuple[str, str]`):
            What there is to be predicted, by the form that it has: a column, and what it means. A kind has its labels, a
            grade lies from 1 to 5, an amount is positive.
        leak (`str`):
            A column that is filled in afterwards.
        number (`str`):
            A column with a running number.
    """

    title: str
    row: str
    rows: str
    story: str
    numbers: tuple[Number, ...]
    categories: dict[str, tuple[str, ...]]
    ordered: tuple[str, tuple[str, ...]]
    group: tuple[str, tuple[str, ...]]
    date: str
    text: tuple[str, tuple[str, ...]]
    yes_or_no: tuple[str, str]
    kind: tuple[str, str, tuple[str, ...]]
    grade: tuple[str, str]
    amount: tuple[str, str]
    value: tuple[str, str]
    leak: str
    number: str


# What a unit may be mistaken for, and how many of these it has
OTHER_UNITS = {
    "km": ("m", 1000), "m": ("cm", 100), "mm": ("cm", 0.1), "kg": ("g", 1000), "g": ("mg", 1000), "l": ("ml", 1000),
    "h": ("min", 60), "min": ("s", 60), "mw": ("kw", 1000),
}  # fmt: skip


def _domain(entry: dict[str, Any]) -> Domain:
    return Domain(**entry | {"numbers": tuple(Number(*number) for number in entry["numbers"])})


DOMAINS = {name: _domain(entry) for name, entry in read_data(Path(__file__).with_name("domains.yaml")).items()}
