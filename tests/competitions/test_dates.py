"""Dates are read in one format, or refused."""

import pandas as pd
import pytest

from trl_mle.competitions import CompetitionError
from trl_mle.competitions.dates import as_times, readings_of


HOURS = pd.Series(pd.date_range("2018-03-05 01:05", periods=400, freq="25h"))
DAYS = pd.Series(pd.date_range("2018-03-05", periods=400))


@pytest.mark.parametrize(
    "form",
    [
        "%d/%m/%Y %I:%M %p",
        "%m/%d/%Y %H:%M",
        "%d.%m.%y %H:%M",
        "%Y-%m-%dT%H:%M:%SZ",
        "%d-%b-%Y %H:%M:%S",
        "%b %d, %Y %H:%M",
    ],
)
def test_all_of_a_column_have_one_format(form):
    """Pandas alone would swap day and month where the day is at most 12."""
    assert (as_times(HOURS.dt.strftime(form)).dt.tz_localize(None) == HOURS).all()


@pytest.mark.parametrize("form", ["%m/%d/%y", "%d.%m.%Y", "%Y%m%d", "%Y%m", "%Y", "%B %Y", "%m/%Y", "%j", "%Y.%m"])
def test_the_order_of_days(form):
    cells = DAYS.dt.strftime(form)
    assert as_times(cells).is_monotonic_increasing or form == "%j"


UNCLEAR = {
    "day or month": ["1/2/2024", "2/1/2024"],
    "day or year": ["18-03-05", "17-04-06"],
    "digits": list(DAYS.dt.strftime("%d%m%Y").str.removeprefix("0")),
    "short digits": list(DAYS.dt.strftime("%d%m%y")),
    "months": list(DAYS.dt.strftime("%m.%Y")),
    "months as fractions": [f"{day.year}.{day.month}" for day in DAYS],
    "several": ["2024-02-01", "1 Jan 2024", "2024-01-02"],
    "a word": ["2024-01-02", "later", "2024-01-03"],
    "a day without a year": ["19-Jan", "20-Jan"],
    "times of day": ["09:30:00", "10:15:00"],
    "an empty cell": ["2024-01-02", ""],
}


@pytest.mark.parametrize("cells", UNCLEAR.values(), ids=UNCLEAR)
def test_what_may_be_misread_is_refused(cells):
    with pytest.raises(CompetitionError, match="--read_csv date_format="):
        as_times(pd.Series(cells))


def test_a_given_format():
    assert as_times(pd.Series(UNCLEAR["day or month"]), "%d/%m/%Y").is_monotonic_decreasing
    assert as_times(DAYS.dt.strftime("%d%m%y"), "%d%m%y").is_monotonic_increasing
    with pytest.raises(CompetitionError, match="'x' in row 1, which date_format does not fit"):
        as_times(pd.Series(["1/2/2024", "x"]), "%d/%m/%Y")
    assert set(readings_of(pd.Series(["1/1/2024", "2/2/2024"]))) == {"%d/%m/%Y"}  # either way the same
