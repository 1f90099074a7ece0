"""Warns of what a table may give away about its targets, or hold by mistake."""

import logging
import re
import shlex

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.dates import readings_of
from trl_mle.competitions.metrics import Takes
from trl_mle.competitions.reading import as_read, first_cell, listed


logger = logging.getLogger(__name__)

LEAST_OTHERS = 5  # rows without the most frequent label; with fewer, a column may determine the labels by chance
LEAST_TIMES = 5  # different dates or ids, with which a random split may leak
ID_NAME = re.compile(r"(?:^|[\W_]|[a-z])I[dD]$|(?:^|[\W_])id$")
_WHO = re.compile(r"name|person|subject|patient|participant|user|customer|player", re.IGNORECASE)
_NUMBER = r"[+\-−]?\d+(?:[.,'’\s]\d+)*"  # as some country writes it


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
    if str(cells.name).casefold() == "year" and values.str.fullmatch(r"(1[5-9]|20)\d\d").all():
        return True
    readings = readings_of(values)
    return len(readings) > 0 and "numbers" not in readings


def _repeats_ids(cells: pd.Series) -> bool:
    is_id = ID_NAME.search(str(cells.name)) or _WHO.fullmatch(str(cells.name))
    return bool(is_id) and LEAST_TIMES <= cells.nunique() <= len(cells) / 2


def report_telling_columns(features: pd.DataFrame, targets: pd.DataFrame) -> None:
    """Warns of columns that determine a target: they may have been made from it."""
    # Where each row is there twice, each column would seem to
    rows = pd.concat([features, targets], axis=1).drop_duplicates()
    for target in targets:
        telling = [name for name in features if _determines(rows[name], rows[target])]
        if telling:
            logger.warning(
                "each of these columns determines %r exactly: %s; leave out those that are not known before it is",
                target, listed(telling),
            )  # fmt: skip


def _determines(column: pd.Series, target: pd.Series) -> bool:
    """Whether the column is a copy of the target, or its values or their order determine the target, other than by chance."""
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
    copies = int(each[is_test].isin(each[~is_test]).sum())
    if copies > 0.01 * is_test.sum():
        logger.warning(
            "%d of %d hidden rows are also in train.csv, with their targets: if they are the same examples, keep one of each",
            copies, is_test.sum(),
        )  # fmt: skip


def report_odd_cells(features: pd.DataFrame) -> None:
    """Warns of columns that are texts to programs, because a few cells are no numbers, or all are in another form."""
    for name, cells in as_read(features).items():
        cells = cells.dropna()
        is_odd = ~np.isfinite(pd.to_numeric(cells, errors="coerce"))
        if 0 < is_odd.mean() <= 0.1:
            where = first_cell(features[name][cells.index], is_odd)
            logger.warning("%r holds numbers, but also %s: correct or empty it if that is wrong", name, where)
        elif is_odd.any() and cells.str.fullmatch(_NUMBER).all() and not holds_times(features[name]):
            where = first_cell(features[name][cells.index], is_odd)
            logger.warning("%r holds %s: if these are numbers, say --read_csv decimal=, or thousands=.", name, where)


def compare_labels(targets: pd.DataFrame, is_test: np.ndarray, split: str, takes: Takes) -> None:
    """Warns of labels that only hidden rows have, and refuses a side that has a single one where two are needed."""
    for name, cells in as_read(targets).items():
        shown, hidden = cells[~is_test].unique().tolist(), cells[is_test].unique().tolist()
        for labels, side in (shown, "train.csv"), (hidden, "the hidden rows"):
            if len(labels) == 1 < cells.nunique() and (labels is shown or takes is Takes.SCORES):
                raise CompetitionError(f"{split} leaves {side} one label of {name!r}, {labels[0]!r}: change either")
        if only := sorted(set(hidden) - set(shown)):
            logger.warning("%s leaves train.csv no row with these labels of %r: %s", split, name, listed(only))
