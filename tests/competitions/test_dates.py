"""Dates are read in one format, or refused."""

import pandas as pd
import pytest

from trl_mle.competitions import CompetitionError
from trl_mle.competitions.dates import are_dates, as_times


HOURS = pd.Series(pd.date_range("2018-03-05 01:05", periods=400, freq="25h"))
DAYS = pd.Series(pd.date_range("2018-03-05", periods=400))


@pytest.mark.parametrize("form", ["%d/%m/%Y %I:%M %p", "%m/%d/%Y %H:%M", "%d.%m.%y %H:%M", "%b %d, %Y %H:%M"])
def test_all_of_a_column_have_one_format(form):
    """Pandas alone would swap day and month where the day is at most 12."""
    cells = HOURS.dt.strftime(form)
    assert are_dates(cells)
    assert (as_times(cells, form).dt.tz_localize(None) == HOURS).all()
    with pytest.raises(CompetitionError, match="--read_csv date_format="):
        as_times(cells)


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%Y%m%d", "%Y%m", "%Y"])
def test_what_is_in_the_order_of_time(form):
    assert as_times(DAYS.dt.strftime(form)).is_monotonic_increasing


UNCLEAR = {
    "digits": list(DAYS.dt.strftime("%d%m%Y").str.removeprefix("0")),
    "months as fractions": [f"{day.year}.{day.month}" for day in DAYS],
    "several": ["2024-02-01", "1 Jan 2024", "2024-01-02"],
    "a day without a year": ["19-Jan", "20-Jan"],
    "an empty cell": ["2024-01-02", ""],
}


@pytest.mark.parametrize("cells", UNCLEAR.values(), ids=UNCLEAR)
def test_what_may_be_misread_is_refused(cells):
    with pytest.raises(CompetitionError, match="--read_csv date_format="):
        as_times(pd.Series(cells))


def test_numbers_are_times():
    for cells in ["1", "2"], ["0.5", "30"], ["1672531200", "1704067200"], ["400000", "999999"]:
        assert as_times(pd.Series(cells)).is_monotonic_increasing


def test_a_format_that_does_not_fit():
    assert as_times(DAYS.dt.strftime("%d%m%y"), "%d%m%y").is_monotonic_increasing
    with pytest.raises(CompetitionError, match="'x' in row 1, which is not %d/%m/%Y"):
        as_times(pd.Series(["1/2/2024", "x"]), "%d/%m/%Y")
