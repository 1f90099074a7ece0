"""Dates in a table, all of a column in one format."""

import pandas as pd

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.reading import first_cell


# Dates that are numbers in another order than that of time
_NUMBERS = ("%d%m%Y", "%m%d%Y", "%d%m%y", "%m%d%y", "%m%Y", "%m.%Y", "%Y.%m")
_DATE = (
    r"(?i)\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?|\d{4}[-/]\d\d"
    r"|(?=.*\d{4}).*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*"
)
_IN_ORDER = r"(?:1[5-9]|20)\d\d(?:0[1-9]|1[0-2])(?:[0-3]\d)?"


def as_times(cells: pd.Series, date_format: str | None = None) -> pd.Series:
    """The cells as dates in this format, or as numbers or in ISO 8601. Raises [`CompetitionError`] if unclear."""
    numbers = pd.to_numeric(cells, errors="coerce")
    times = numbers if date_format is None and numbers.notna().all() else _dates(cells, date_format or "ISO8601")
    if (is_odd := times.isna()).any():
        form = date_format or "a number or a date such as 2024-12-31"
        what = f"{cells.name!r} is {first_cell(cells, is_odd)}, which is not {form}"
        raise CompetitionError(f"{what}: correct it, or name the format, as in --read_csv date_format=%d/%m/%Y")
    if times is numbers and not cells.str.fullmatch(_IN_ORDER).all():
        padded = cells.str.zfill(cells.str.len().max())  # a spreadsheet drops a leading zero
        if any(_dates(digits, form).notna().all() for digits in (cells, padded) for form in _NUMBERS):
            raise CompetitionError(
                f"{cells.name!r} holds numbers such as {cells.iloc[0]}, which may be dates: name their format, as in "
                "--read_csv date_format=%d%m%Y, or write a letter before each"
            )
    return times


def are_dates(cells: pd.Series) -> bool:
    """Whether all cells look like dates with a year, in some format."""
    return bool(cells.str.fullmatch(_DATE).all())


def _dates(cells: pd.Series, date_format: str) -> pd.Series:
    return pd.to_datetime(cells, format=date_format, errors="coerce", utc=True)
