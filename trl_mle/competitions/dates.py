"""Dates in a table, all of a column in one format."""

from collections.abc import Sequence
from itertools import product

import pandas as pd

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.reading import first_cell


# No month first between dots
_DAYS = [
    *(form.replace("/", sign) for sign in "/-." for form in ("%Y/%m/%d", "%d/%m/%Y", "%m/%Y", "%Y/%m", "%d/%m/%y")),
    *(form.replace("/", sign) for sign in "/-" for form in ("%m/%d/%Y", "%m/%d/%y", "%y/%m/%d")),
    *(form.replace("%b", month) for month in ("%b", "%B") for form in ("%d %b %Y", "%b %d %Y", "%b %d, %Y", "%b %Y")),
    *("%d-%b-%Y", "%d-%b-%y"),
]
_FORMATS = [*map(" ".join, product(_DAYS, ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p"))), *_DAYS]
# Dates that are numbers, by their number of digits
_DIGITS = {6: ("%d%m%y", "%m%d%y", "%m%Y"), 8: ("%d%m%Y", "%m%d%Y")}


def as_times(cells: pd.Series, date_format: str | None = None) -> pd.Series:
    """
    The cells as numbers or dates in one format: this one, or the only one that fits all of them. Raises [`CompetitionError`],
    which names the option, if there is none or several.
    """
    option = "--read_csv date_format=%d/%m/%Y"
    if date_format is not None:
        times = _dates(cells, date_format)
        if (is_none := times.isna()).any():
            raise CompetitionError(f"{cells.name!r} is {first_cell(cells, is_none)}, which date_format does not fit")
        return times
    readings = readings_of(cells)
    if len(readings) > 1:
        forms = " or ".join(readings)
        raise CompetitionError(
            f"{cells.name!r} has dates such as {cells.iloc[0]!r}: say whether {forms}, as in {option}"
        )
    if not readings:
        raise CompetitionError(
            f"{cells.name!r} has no numbers, or dates with a year in one format, but cells such as {cells.iloc[0]!r}: correct "
            f"the odd ones, or name the format with {option}"
        )
    [times] = readings.values()
    return times


def readings_of(cells: pd.Series) -> dict[str, pd.Series]:
    """What the cells may all be, numbers or dates, by their format; only one of several that order them alike."""
    numbers = pd.to_numeric(cells, errors="coerce")
    readings: dict[str, pd.Series] = {}
    forms: Sequence[str] = ("%m.%Y", "%Y.%m")
    if numbers.notna().all():
        readings["numbers"] = numbers
        if not cells.str.contains(".", regex=False).all():
            cells = cells.str.zfill(cells.str.len().max())  # a spreadsheet drops a leading zero
            forms = _DIGITS.get(len(cells.iloc[0]), ())
        if forms and cells.str.fullmatch(r"(1[5-9]|20)\d\d(0[1-9]|1[0-2])([0-3]\d)?").all():
            forms = ()  # these are in the order of time
    elif (times := _dates(cells, "ISO8601")).notna().all():
        return {"ISO8601": times}
    else:
        forms = _FORMATS if cells.str.contains(r"\d").all() else ()
    first = cells.drop_duplicates().head(20)
    for form in forms:
        if _dates(first, form).notna().all() and (times := _dates(cells, form)).notna().all():
            ranks = times.rank(method="dense")
            if not any(ranks.equals(other.rank(method="dense")) for other in readings.values()):
                readings[form] = times
    return readings


def _dates(cells: pd.Series, date_format: str) -> pd.Series:
    return pd.to_datetime(cells, format=date_format, errors="coerce", utc=True)
