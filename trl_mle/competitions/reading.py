"""Reads a table with `pandas.read_csv`, and refuses what would be misread without a word."""

import csv
import io
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.prepared import csv_text


logger = logging.getLogger(__name__)

# The options of `pandas.read_csv` that --read_csv takes
DIALECT = ("sep", "quotechar", "quoting", "escapechar", "doublequote", "skipinitialspace")
PLACES = ("header", "names", "skiprows", "comment", "index_col", "usecols")
VALUES = ("decimal", "thousands", "na_values")
TEXTS = ("sep", "quotechar", "escapechar", "decimal", "thousands", "encoding")
OPTIONS = (*DIALECT, *PLACES, "skipfooter", *VALUES, "encoding", "date_format")
_TOTAL = r"(?i)\W*(?:(?:grand|sub)[ -]?)?(?:totals?|sums?|summe|gesamt|average|mean)\W*"


def read_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options for [`read_table`] from texts such as `sep=;` and `skiprows=2`. Values are JSON, or else text."""
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in OPTIONS:
            raise CompetitionError(f"--read_csv takes NAME=VALUE with one of {', '.join(OPTIONS)}; got {text!r}")
        try:
            option = json.loads(value)
        except json.JSONDecodeError:
            option = value.replace("\\t", "\t")
        if name in ("quoting", "skipfooter") and type(option) is not int:
            raise CompetitionError(f"--read_csv {name} takes a whole number; got {text!r}")
        options[name] = value if name in TEXTS and not isinstance(option, str) else option  # 1252 is an encoding, too
    return options


def read_table(path: Path, options: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """
    Reads a table with a header, all cells as texts without surrounding spaces, with some of [`OPTIONS`]; the separator
    is guessed. A number as `skiprows` leaves out lines first. The index counts the rows as a spreadsheet does: without
    `skiprows`, the header is row 1. Raises [`CompetitionError`] or `FileNotFoundError` if there is no such table.
    """
    options = {"skipinitialspace": True, **(options or {})}
    text = _text(path, options.pop("encoding", None))
    options.pop("date_format", None)
    skipped = options.pop("skiprows") if type(options.get("skiprows")) is int else 0
    text = "\n".join(text.split("\n")[skipped:])  # whatever quotes and separators those lines hold
    options.setdefault("sep", max(",;\t|", key=lambda sign: _fitness(text, sign)))
    if options["sep"] != ",":
        logger.warning("%s: separated by %r", path, options["sep"])
    _check_rows(path, text, options, 1 + skipped)
    structure = {name: value for name, value in options.items() if name not in VALUES}
    cells = _parsed(path, text, **structure, dtype=str, na_filter=False)
    if len(structure) < len(options):
        values = _parsed(path, text, **options)
        # Three digits follow a sign for thousands: pandas takes the date 28.07.2023 for the number 28072023
        thousands = re.escape(options.get("thousands") or "\0")  # which no text holds
        decimal = re.escape(options.get("decimal", "."))
        whole = rf"\d{{1,3}}({thousands}\d{{2,3}})*{thousands}\d{{3}}|\d+|inf(inity)?"
        number = rf"(?i)\W*({whole})?({decimal}\d*)?(e[-+]?\d+)?\s*"
        for name in cells:
            cells[name] = cells[name].mask(values[name].isna(), "")
            read, is_written_so = as_read(cells[[name]])[name], cells[name].str.fullmatch(number)
            if values[name].equals(read):
                continue
            if is_numeric_dtype(values[name]) and is_written_so.all():
                cells[name] = values[name].map(str).mask(values[name].isna(), "")
            elif is_numeric_dtype(read) and (odd := cells[name].str.fullmatch(r"\W*[1-9]\d{0,2}\.\d{3}")).any():
                what = (
                    f"{name!r} of {path} is {first_cell(cells[name], odd)}, a thousand times as much with thousands=."
                )
                raise CompetitionError(f"{what}: name both signs with --read_csv, and let all its cells have them")
    cells.index += skipped
    cells = _without_repetitions(path, cells.apply(lambda column: column.str.strip()))
    has_comma = [name for name in cells if cells[name].str.fullmatch(r"(-?[\d.]*,\d+)?").all() and cells[name].any()]
    if has_comma:
        logger.warning("%s look like numbers, which --read_csv decimal=, or thousands=, reads", listed(has_comma))
    if "skipfooter" not in options and len(cells):
        _check_last_row(path, cells)
    return cells


def as_read(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells as programs see them: as pandas reads them from a file."""
    seen = {}
    for name, column in cells.items():
        codes, values = pd.factorize(column, use_na_sentinel=False)  # equal texts are read once
        text = io.StringIO(csv_text(pd.DataFrame({name: values})))
        seen[name] = pd.read_csv(text, low_memory=False, skip_blank_lines=False).iloc[:, 0].take(codes).array
    return pd.DataFrame(seen, cells.index)


def clean_name(name: str) -> str:
    """A column's name without surrounding spaces and line ends."""
    return " ".join(name.split())


def listed(names: Iterable[object]) -> str:
    """The first names of a message."""
    names = list(names)
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def first_cell(cells: pd.Series, chosen: pd.Series) -> str:
    """The first of the chosen cells, for a message."""
    row, count = cells.index[chosen].min(), int(chosen.sum())
    return f"{shortened(cells[row])!r} in row {row}" + (f" and {count - 1} more" if count > 1 else "")


def as_times(cells: pd.Series, date_format: str | None = None) -> pd.Series:
    """The cells as dates in this format, or as numbers or in ISO 8601. Raises [`CompetitionError`]."""
    times = pd.to_numeric(cells, errors="coerce")
    # Numbers such as 31122023 are in another order than that of time; a spreadsheet drops a leading zero
    days = [pd.to_datetime(cells.str.zfill(8), format=form, errors="coerce") for form in ("%d%m%Y", "%m%d%Y")]
    is_shuffled = any(day.notna().all() for day in days) and not cells.str.fullmatch(r"(1[5-9]|20)\d{6}").all()
    is_shuffled |= bool(cells.str.fullmatch(r"(0?[1-9]|1[0-2])(19|20)\d\d").all())  # month and year
    if date_format is not None or times.isna().any() or is_shuffled:
        times = pd.to_datetime(cells, format=date_format or "ISO8601", errors="coerce", utc=True)
    if (is_odd := times.isna()).any():
        form = date_format or "a number or a date such as 2024-12-31"
        what = f"{cells.name!r} is {first_cell(cells, is_odd)}, which is not {form}"
        raise CompetitionError(f"{what}: correct it, or name the format, as in --read_csv date_format=%d/%m/%Y")
    return times


def shortened(text: str) -> str:
    """A text in one line of at most 40 letters."""
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:40] + "…"


def _text(path: Path, encoding: str | None) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"there is no table {path}")
    content = path.read_bytes()
    if content.startswith((b"\x1f\x8b", b"PK\3\4")):
        raise CompetitionError(f"{path} is compressed: unpack it first")
    try:
        text = content.decode(encoding or "utf-8-sig")
    except (UnicodeDecodeError, LookupError):
        text = "\0"
    if "\0" in text:
        guess = "utf-16" if b"\0" in content else "cp1252"
        what = f"{path} is no text in {encoding or 'UTF-8'}"
        raise CompetitionError(f"{what}: save it as CSV, or name its encoding, as in --read_csv encoding={guess}")
    return text


def _fitness(text: str, separator: str) -> tuple[bool, int]:
    """Whether the first rows have the same number of cells, and the least number: texts may hold other separators."""
    rows = csv.reader(text[:100_000].splitlines()[:20], delimiter=separator, skipinitialspace=True)
    counts = [len(row) for row in rows if row] or [0]
    return min(counts) == max(counts) > 1, min(counts)


def _check_rows(path: Path, text: str, options: Mapping[str, Any], first: int) -> None:
    """Refuses quotes that do not enclose a cell, and rows of another length than the header. `first` is the number
    of the text's first line in the file."""
    dialect = {name: options[name] for name in DIALECT if name in options}
    if len(separator := dialect.pop("sep")) != 1:  # a regular expression
        return
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    line = first
    lengths: list[tuple[int, int]] = []
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, **dialect)
        for row in rows:
            if row:
                lengths.append((line, len(row)))
            if "quoting" not in options and any(_holds_rows(cell, separator, lengths[0][1]) for cell in row):
                raise csv.Error("it holds whole rows")
            line = first + rows.line_num
    except TypeError as error:
        raise CompetitionError(f"--read_csv: {error}") from error
    except csv.Error as error:
        raise CompetitionError(
            f"line {line} of {path}: a quoted cell does not end with a quote ({error}): if quotes are part of texts, "
            r"--read_csv quoting=3; if \ stands before those that do, --read_csv 'escapechar=\'"
        ) from error
    if len(lengths) < 2 and not options.keys() & set(PLACES):
        raise CompetitionError(f"{path} is empty, or has a header alone")
    _, width = lengths[0]
    for line, length in lengths[: len(lengths) - options.get("skipfooter", 0)]:
        if length != width and not options.keys() & set(PLACES):
            raise CompetitionError(
                f"line {line} of {path} has {length} cells, and the header {width}: quote texts with separators, or "
                "take --read_csv skiprows=1, skipfooter=1, index_col=0 (R's row names) or index_col=false"
            )


def _holds_rows(cell: str, separator: str, width: int) -> bool:
    """Whether all lines in the middle of a cell look like rows, as between two quotes that are parts of texts."""
    middle = cell.splitlines()[1:-1]
    return width > 1 and len(middle) > 0 and all(line.count(separator) == width - 1 for line in middle)


def _parsed(path: Path, text: str, **options: Any) -> pd.DataFrame:
    if options.get("skipfooter"):
        options["engine"] = "python"
    try:
        table = pd.read_csv(io.StringIO(text), **options)
    except (ValueError, TypeError, IndexError) as error:  # pandas' ParserError and EmptyDataError among them
        raise CompetitionError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return table.set_axis(range(2, len(table) + 2)).set_axis(map(clean_name, map(str, table.columns)), axis=1)


def _without_repetitions(path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """The table without columns that only count the rows, and rows that repeat the header."""
    if not cells.columns.is_unique:
        raise CompetitionError(f"{path} has two columns {cells.columns[cells.columns.duplicated()][0]!r}: rename one")
    # The index as written by `to_csv`, which may reveal the original order of the rows, or nothing at all
    indexes = cells.columns[cells.columns.str.fullmatch(r"Unnamed: \d+")]
    unnamed = [name for name in indexes if cells[name].str.fullmatch(r"\d*").all()]
    if counting := [name for name in unnamed if cells[name].any()]:
        logger.warning("%s: left out %s, which numbers rows", path, listed(counting))
    if (is_header := (cells == cells.columns).all(axis=1)).any():
        logger.warning("%s: left out %d rows that repeat the header", path, is_header.sum())
    return cells[~is_header].drop(columns=unnamed)


def _check_last_row(path: Path, cells: pd.DataFrame) -> None:
    """Refuses a last row of totals, which would become an example."""
    for name, column in cells.tail(1).items():
        cell = column.iloc[0]
        if re.fullmatch(_TOTAL, cell) and (cells[name] == cell).sum() == 1:
            what = f"the last row of {path} has the {name} {cell!r}"
            raise CompetitionError(f"{what}: leave it out with --read_csv skipfooter=1, or keep it with skipfooter=0")
