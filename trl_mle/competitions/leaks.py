"""Looks for the hidden answers in the files that programs see, also under another name."""

import io
import itertools
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from trl_mle.competitions.prepared import csv_text
from trl_mle.competitions.reading import OPENERS
from trl_mle.competitions.table_checks import determines


COPIED = 0.98  # share of the rows that equal the answers
KNOWN_IDS = 0.9  # share of the test rows that a table lists
TOGETHER = "the answers"  # of several columns
LINES = 200  # answers that are looked for in files of other formats
SEPARATORS = str.maketrans(dict.fromkeys(",;|:=\"'()[]{}", " "))  # of their cells
# Anybody may have written the files
UNREADABLE = (
    ValueError, TypeError, LookupError, AttributeError, OSError, ImportError, EOFError, ArithmeticError, MemoryError,
    RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def find_leak(public: Path, answers: pd.DataFrame, id_column: str) -> str | None:
    """
    Looks for the answers in a competition's public files. Tables (CSV, TSV, JSON, parquet, feather, numpy's arrays, also
    compressed or in a zip archive) are matched with the answers by any column that lists the ids, and by order. In other files,
    lines of text are compared.

    A column gives a target away if it equals it, up to a few rows, or has a label of its own for each label. A column that
    the training data lack must not determine it in other ways either.

    Args:
        public (`Path`):
            The public files.
        answers (`DataFrame`):
            The answers, in the format of a submission.
        id_column (`str`):
            Column with the ids.

    Returns:
        `str` or `None`: The file and what it holds, for an error; `None` if nothing was found.
    """
    truth = answers.drop(columns=id_column).set_index(pd.Index(_ids(answers[id_column])))
    together = truth.groupby(list(truth), dropna=False).ngroup()  # such as the label of one-hot answers
    if truth.shape[1] > 1:
        truth = truth.assign(**{TOGETHER: together})
    features: dict[str, set[str]] = {}  # files that have the column, but not the ids of the test rows
    found: list[tuple[str, pd.DataFrame]] = []
    lines = _lines(answers, id_column)
    for path in sorted(path for path in public.rglob("*") if path.is_file()):
        name, is_table = path.relative_to(public).as_posix(), False
        for table in _tables(path):
            is_table |= table.shape[1] > 1  # or other characters separate its cells
            matched = list(_matched_rows(table, truth))
            found += [(name, rows) for rows in matched]
            for column in map(str, table) if not matched else ():
                features.setdefault(column, set()).add(name)
            if len(table) == len(truth):
                found.append((name, table.reset_index(drop=True)))
        if not is_table and _holds_lines(path, lines):
            return f"{name} holds the answers, as lines of text"
    for name, rows in found:
        for column, target in itertools.product(rows.columns.drop(id_column, errors="ignore"), truth):
            if truth.shape[1] > 1 and target != TOGETHER:  # one of many
                gives_away = _is_copy
            else:
                gives_away = partial(_gives_away, is_feature=bool(features.get(str(column), set()) - {name}))
            if gives_away(rows[column], truth[target].reset_index(drop=True)):
                return f"{name} holds the answers: its column {column!r} gives away {target!r} of the test rows"
    return None


def equals_answers(submission: pd.DataFrame, answers: pd.DataFrame, id_column: str) -> bool:
    """Whether a submission is (nearly) the right one: where a label is rare, which a constant guess has wrong, in its rows, too."""
    order = submission.set_index(id_column).reindex(answers[id_column])
    targets = answers.drop(columns=id_column)
    return any(_is_copy(order[name], truth) for name, truth in targets.items())


def _matched_rows(table: pd.DataFrame, truth: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The table's rows for the test rows, matched by any column that lists the ids."""
    table = table.reset_index(drop=True)
    if not truth.index.is_unique:
        return
    for key in table:
        ids = _ids(table[key].dropna())
        if ids.is_unique and truth.index.isin(ids).mean() >= KNOWN_IDS:
            rows = table.drop(columns=key).loc[ids.index].set_index(pd.Index(ids))
            yield rows.reindex(truth.index).reset_index(drop=True)


def _ids(cells: pd.Series) -> pd.Series:
    """Ids as text. Whole numbers may be floats: numpy has arrays of one type, and pandas where a cell is empty."""
    return cells.astype(str).str.removesuffix(".0")


def _gives_away(column: pd.Series, target: pd.Series, is_feature: bool) -> bool:
    if _is_copy(column, target):
        return True
    if not is_feature:
        return determines(column, target)
    values, labels = pd.factorize(column)[0], pd.factorize(target)[0]
    kinds = len(np.unique(labels))
    pairs = len(np.unique(values * len(labels) + labels))
    return len(np.unique(values)) == kinds == pairs and determines(column, target)


def _is_copy(column: pd.Series, target: pd.Series) -> bool:
    """Whether the column is a copy of the target, and where nearly all rows have one label, of the others' rows, too."""
    if _are_equal(column, target).mean() < COPIED:
        return False
    return target.value_counts(normalize=True, dropna=False).iloc[0] <= COPIED or _knows_each(column, target)


def _knows_each(column: pd.Series, target: pd.Series) -> bool:
    """Whether the column is a copy of the target among the rows of each of several labels."""
    shares = pd.Series(_are_equal(column, target)).groupby(target.to_numpy()).mean()
    return len(shares) > 1 and bool(shares.min() >= COPIED)


def _are_equal(column: pd.Series, target: pd.Series) -> np.ndarray:
    wanted = pd.to_numeric(target, errors="coerce").astype(float).to_numpy()
    if np.isfinite(wanted).all():
        return np.isclose(pd.to_numeric(column, errors="coerce").astype(float).to_numpy(), wanted)
    return column.astype(str).to_numpy() == target.astype(str).to_numpy()


def _tables(path: Path) -> Iterator[pd.DataFrame]:
    """The tables in a file; none if it is of another format."""
    if path.suffix.lower() != ".zip":
        yield from _read(path, lambda: path.open("rb"))
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield from _read(Path(name), partial(archive.open, name))
    except UNREADABLE:
        return


def _read(path: Path, open_file: Callable[[], IO[bytes]]) -> Iterator[pd.DataFrame]:
    *inner, last = [suffix.lower() for suffix in path.suffixes[-2:]] or [""]
    kind = inner[0] if inner and last in OPENERS else last
    try:
        with open_file() as stored, OPENERS.get(last, nullcontext)(stored) as file:
            if kind in (".csv", ".tsv"):
                yield _from_csv(file, "\t,;|" if kind == ".tsv" else ",;\t|")
            elif kind in (".jsonl", ".ndjson"):
                yield _plain(pd.read_json(file, lines=True))
            elif kind == ".json":
                yield from (_plain(table) for table in _from_json(json.load(file)) if table.size)
            elif kind == ".parquet":
                yield _plain(pd.read_parquet(io.BytesIO(file.read())))
            elif kind == ".feather":
                yield _plain(pd.read_feather(io.BytesIO(file.read())))
            elif kind in (".npy", ".npz"):
                arrays = np.load(io.BytesIO(file.read()), allow_pickle=False)
                found = [arrays] if isinstance(arrays, np.ndarray) else [arrays[name] for name in arrays.files]
                yield from (pd.DataFrame(array.reshape(len(array), -1)) for array in found if 1 <= array.ndim <= 2)
    except UNREADABLE:
        return


def _from_csv(file: IO[bytes], separators: str, encoding: str = "utf-8") -> pd.DataFrame:
    """The table in a file, in UTF-8 or else Latin-1, separated by the first of the signs that its header has."""
    file.seek(0)
    header = file.readline().decode("latin-1")
    file.seek(0)
    separator = next((sign for sign in separators if sign in header), ",")
    decimal = "," if separator == ";" else "."
    try:
        return pd.read_csv(file, sep=separator, decimal=decimal, encoding=encoding, low_memory=False)
    except UnicodeDecodeError:
        return _from_csv(file, separators, "latin-1")


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """The table as a CSV file would hold it: cells may be lists or of pandas' own types."""
    return pd.read_csv(io.StringIO(csv_text(table)), low_memory=False)


def _from_json(content: Any) -> Iterator[pd.DataFrame]:
    """The tables in a JSON value: rows in a list, rows or values by their keys, or columns; and those in its parts."""
    if isinstance(content, list):
        yield pd.DataFrame(content)
    if not isinstance(content, dict):
        return
    parts = {key: value for key, value in content.items() if _is_nested(value)}
    if len(parts) > max(map(len, parts.values()), default=-1):
        rows = parts or content
        yield pd.DataFrame(list(rows.values()), index=list(rows)).reset_index()
        return
    are_columns = len({(type(part), len(part)) for part in parts.values()}) == 1
    if are_columns:
        table = pd.DataFrame(parts)
        yield table if isinstance(table.index, pd.RangeIndex) else table.reset_index()
    for part in parts.values():
        if not are_columns or any(map(_is_nested, part.values() if isinstance(part, dict) else part)):
            yield from _from_json(part)


def _is_nested(value: object) -> bool:
    return isinstance(value, list | dict)


def _lines(answers: pd.DataFrame, id_column: str) -> set[tuple[object, ...]]:
    """Some of the answers, with their ids, as the cells of lines."""
    some = answers.iloc[:: max(1, len(answers) // LINES)]
    rows = (_words(" ".join(map(str, row))) for row in some.set_index(id_column).itertuples())
    return {tuple(map(_cell, words)) for words in rows}


def _holds_lines(path: Path, wanted: set[tuple[object, ...]]) -> bool:
    """Whether most of the wanted lines are in a file, whatever separates their cells."""
    lengths, found = set(map(len, wanted)), set()
    try:
        with OPENERS.get(path.suffix.lower(), open)(path, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                words = _words(line)
                if len(words) in lengths and (row := tuple(map(_cell, words))) in wanted:
                    found.add(row)
    except UNREADABLE:  # it only seems to be compressed
        return False
    return len(found) >= COPIED * len(wanted)


def _words(line: str) -> list[str]:
    """The words of a line, whatever separates its cells; those of a text are separate, too."""
    return line.translate(SEPARATORS).split()


def _cell(value: object) -> object:
    """A number, or the text."""
    try:
        return float(str(value))
    except ValueError:
        return str(value)
