"""Dates in a table, all of a column in one format."""

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
# Dates that are numbers, by their number of digits; with a point, months that look like fractions
_DIGITS = {6: ("%d%m%y", "%m%d%y", "%m%Y"), 8: ("%d%m%Y", "%m%d%Y")}
_IN_ORDER = r"(?:1[5-9]|20)\d\d(?:0[1-9]|1[0-2])(?:[0-3]\d)?"


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
        most = max((_dates(cells, form) for form in ("ISO8601", *_FORMATS)), key=pd.Series.count)
        is_odd = max(most, pd.to_numeric(cells, errors="coerce"), key=pd.Series.count).isna()
        raise CompetitionError(
            f"{cells.name!r} has no numbers, or dates with a year in one format, but {first_cell(cells, is_odd)}: correct it, "
            f"or name the format with {option}"
        )
    [times] = readings.values()
    return times


def readings_of(cells: pd.Series) -> dict[str, pd.Series]:
    """What the cells may all be, numbers or dates, by their format; only one of several that mean the same times."""
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.notna().all():
        if cells.str.fullmatch(_IN_ORDER).all():
            return {"numbers": numbers}
        digits = cells.str.zfill(cells.str.len().max())  # a spreadsheet drops a leading zero
        has_points = cells.str.contains(".", regex=False).all()
        forms = ("%m.%Y", "%Y.%m") if has_points else _DIGITS.get(len(digits.iloc[0]), ())
        dates = {form: _dates(cells if has_points else digits, form) for form in forms}
        order = numbers.rank(method="dense")
        return {"numbers": numbers} | {
            form: times
            for form, times in dates.items()
            if times.notna().all() and (times.rank(method="dense") != order).any()
        }
    if (times := _dates(cells, "ISO8601")).notna().all():
        return {"ISO8601": times}
    readings: dict[str, pd.Series] = {}
    first = cells.drop_duplicates().head(20)
    if not first.str.contains(r"\d").all():
        return readings
    for form in _FORMATS:
        if _dates(first, form).notna().all() and (times := _dates(cells, form)).notna().all():
            is_new = not any(times.equals(other) for other in readings.values())
            readings |= {form: times} if is_new else {}
    return readings


def _dates(cells: pd.Series, date_format: str) -> pd.Series:
    return pd.to_datetime(cells, format=date_format, errors="coerce", utc=True)
