"""Chooses the rows of the hidden answers to hold out for reports."""

import hashlib

import numpy as np
import pandas as pd


MOST_LABELS = 20  # maximum number of distinct numbers that count as labels, unless they repeat ten times on average
BINS = 10  # of a column of measurements


def held_out_rows(answers: pd.DataFrame, share: float) -> np.ndarray:
    """
    A mask of this share of the answers' rows, stratified by label: those whose ids have the first hashes, on every
    machine, whatever the order. A label is the answer in all columns, measurements in quantile bins. Without bins, a
    label with two or more rows has one in either part.
    """
    columns = [answers[name] for name in answers.columns]
    codes = np.column_stack(
        [_bins(column) if is_measured(column) else pd.factorize(column, sort=True)[0] for column in columns]
    )
    _, labels, sizes = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    # Rounding errors of the labels compensate each other: labels with a single row are distributed, too
    counts = np.diff(np.floor(np.cumsum(sizes) * share), prepend=0).astype(int)
    if not any(map(is_measured, columns)):
        counts = np.where(sizes > 1, counts.clip(1, sizes - 1), counts)
    order = np.lexsort((_hashes(answers.index), labels.ravel()))  # a stable sort
    place = np.arange(len(answers)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # within the label
    held_out = np.zeros(len(answers), bool)
    held_out[order] = place < np.repeat(counts, sizes)
    return held_out


def last_rows(times: pd.Series, share: float) -> np.ndarray:
    """A mask of about this share of the rows, the last ones. Rows of the same time stay together."""
    first = times.sort_values().iloc[int(len(times) * (1 - share))]
    return ((times >= first) if (times < first).any() else (times > first)).to_numpy()


def whole_groups(groups: pd.Series, share: float) -> np.ndarray:
    """A mask of at most this share of the rows: each group that fits, by hash, or the smallest if none does."""
    sizes = groups.value_counts()
    sizes = sizes.iloc[np.argsort(_hashes(sizes.index), kind="stable")]
    hidden, room = [], share * len(groups)
    for group, size in sizes.items():
        if size <= room:
            hidden.append(group)
            room -= size
    return groups.isin(hidden or [sizes.idxmin()]).to_numpy()


def is_measured(column: pd.Series) -> bool:
    """Whether a column has too many distinct numbers for labels."""
    return pd.api.types.is_numeric_dtype(column) and column.nunique() > max(MOST_LABELS, len(column) / 10)


def _bins(column: pd.Series) -> np.ndarray:
    return (column.rank(method="min").to_numpy(int) - 1) * BINS // len(column)


def _hashes(ids: pd.Index) -> np.ndarray:
    texts = (str(value).encode("utf-8", errors="surrogatepass") for value in ids.tolist())
    return np.frombuffer(b"".join(hashlib.sha256(text).digest()[:8] for text in texts), ">u8")
