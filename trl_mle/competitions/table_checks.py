"""Warns of what a table may give away about its targets, or hold by mistake."""

import logging
import re
import shlex

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.reading import listed


logger = logging.getLogger(__name__)

LEAST_OTHERS = 5  # rows without the most frequent label; with fewer, a column may determine the labels by chance
LEAST_TIMES = 5  # different dates or ids, with which a random split may leak
ID_NAME = re.compile(r"(?:^|[\W_]|[a-z])I[dD]$|(?:^|[\W_])id$")
_DATE = (  # with a year, in some format
    r"(?i)\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?|\d{4}[-/]\d\d"
    r"|(?=.*\d{4}).*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*"
)
_WHO = re.compile(r"name|person|subject|patient|participant|user|customer|player", re.IGNORECASE)


def report_splits(features: pd.DataFrame) -> None:
    """Warns of columns that suggest another split than a random one."""
    for kind, leaks, why in (
        ("time", holds_times, "holds times, and hidden rows lie between others: if later ones are to be predicted"),
        ("group", _repeats_ids, "repeats, and hidden rows have the same as others: if new ones are to be predicted"),
    ):
        if name := next((name for name in features if leaks(features[name])), None):
            logger.warning("%r %s, add --split %s", name, why, shlex.quote(f"{kind}:{name}"))


def holds_times(cells: pd.Series) -> bool:
    """Whether the first cells are years, by the column's name, or dates."""
    values = cells[cells != ""].drop_duplicates().head(50)
    if len(values) < LEAST_TIMES:
        return False
    are_years = str(cells.name).casefold() == "year" and values.str.fullmatch(r"(1[5-9]|20)\d\d").all()
    return bool(are_years or values.str.fullmatch(_DATE).all())


def _repeats_ids(cells: pd.Series) -> bool:
    is_id = ID_NAME.search(str(cells.name)) or _WHO.fullmatch(str(cells.name))
    return bool(is_id) and LEAST_TIMES <= cells.nunique() <= len(cells) / 2


def report_telling_columns(features: pd.DataFrame, targets: pd.DataFrame) -> None:
    """Warns of columns that determine a target: they may have been made from it."""
    # Where each row is there twice, each column would seem to
    rows = pd.concat([features, targets], axis=1).drop_duplicates()
    for target in targets:
        if telling := [name for name in features if _determines(rows[name], rows[target])]:
            advice = "leave out those that are not known before it is"
            logger.warning("each of these columns determines %r exactly: %s; %s", target, listed(telling), advice)


def _determines(column: pd.Series, target: pd.Series) -> bool:
    """Whether the column's values or their order determine the target, other than by chance."""
    if len(target) - target.value_counts().iloc[0] < LEAST_OTHERS:
        return False
    values, labels = pd.factorize(column)[0], pd.factorize(target)[0]  # a missing value counts as one: -1
    if len(pd.unique(values * len(labels) + labels)) > len(pd.unique(values)):
        return False  # a value goes with several labels
    if column.nunique() <= len(column) / 2 or column.equals(target):
        return True
    if not is_numeric_dtype(column):
        return False
    order = np.argsort(column.to_numpy(float), kind="stable")
    if is_numeric_dtype(target):
        steps = np.diff(target.to_numpy(float)[order])
        return bool((steps >= 0).all() or (steps <= 0).all())
    borders = int(np.count_nonzero(np.diff(labels[order])))
    return target.nunique() <= len(target) / 4 and borders < target.nunique()


def report_copies(rows: pd.DataFrame, is_test: np.ndarray) -> None:
    """Warns of hidden rows of which train.csv has a copy, with the answer."""
    each = pd.util.hash_pandas_object(rows, index=False)
    copies, count = int(each[is_test].isin(each[~is_test]).sum()), int(is_test.sum())
    if copies > 0.01 * count:
        logger.warning("%d of %d hidden rows are also in train.csv, with their targets: keep one", copies, count)
