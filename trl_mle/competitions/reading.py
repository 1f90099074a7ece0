"""Reads tables as people have them, into cells that `pd.read_csv` reads without options once they are written as CSV."""

import bz2
import codecs
import csv
import gzip
import io
import logging
import lzma
import re
import warnings
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.prepared import csv_text
from trl_mle.competitions.split import MOST_LABELS


logger = logging.getLogger(__name__)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Numbers with separated thousands: 1,234.5 or 1.234,5; a space, also one that does not break, or an apostrophe may separate them
_SPACES = " '’\u00a0\u202f"
_POINT = rf"[+\-−]?(?:[1-9]\d{{0,2}}(?:[,{_SPACES}]\d{{3}})+|\d*)(?:\.\d+|(?<=\d)\.?)(?:[eE][+\-]?\d+)?"
_COMMA = rf"[+\-−]?(?:[1-9]\d{{0,2}}(?:[.{_SPACES}]\d{{3}})+|\d+)(?:,\d+)?"
_COMMAS_ALONE = r"(?:[+\-−]?\d++(?:,\d++)?+\s++)++"  # in all rows of a table
_DOTTED = r"[+\-−]?[1-9]\d{0,2}(?:\.\d{3})+"
# Stand for a missing number: signs, words, and errors of Excel
_NOTHING = r"(?i:[?.*\-–—]{1,3}|\\n|[nk][./]? ?a\.?|nan|null|missing|unknown|tbd|#[a-z/0]+[!?]?)"
_SIGN = r"([$€£¥₹%])"  # of a currency, or per cent
# Dates that may be misread: any part may be the year, or they look like numbers whose order is another one
_UNCLEAR = {
    r"\d\d[/-]\d\d[/-]\d\d(?:[ T].*)?": ["%y%m%d"],
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])": [],  # as numbers, they have the right order
    r"\d{6}": ["%y%m%d", "%d%m%y", "%m%d%y"],
    r"\d{3,4}(?:19|20)\d\d": ["%d%m%Y", "%m%d%Y"],
    r"(?:0?[1-9]|1[0-2])\.(?:19|20)\d\d": ["%m%Y"],
}
_OTHER_FORMAT = r"\s*(?:\{\s*\"|\[\s*[\[{]|<[!?]|<html)"  # JSON, HTML and XML


def read_tables(paths: Sequence[Path], labels: Collection[str] = ()) -> list[pd.DataFrame]:
    """
    Reads tables with the same columns, all cells as texts without surrounding spaces. Numbers are rewritten where pandas would
    not read them as such, in the same way in all tables, unless only one has decimal commas. What is done beside reading CSV in
    UTF-8 is logged in a line. In the columns `labels`, a sign such as `-` is one of the labels, unless they have too many values
    for labels. The index counts the rows as a spreadsheet does: the header is row 1.

    Raises:
        [`CompetitionError`], `FileNotFoundError`: A file is no table with a header, or does not exist.
    """
    tables, separators = zip(*map(_read_table, paths), strict=True)
    for path, table, separator in zip(paths, tables, separators, strict=True):
        if separator != "," and (names := _with_other_decimals(table, tables)):
            alone, _ = _plain_numbers(table, [separator], labels)
            if rewritten := [name for name in names if not alone[name].equals(table[name])]:
                table[rewritten] = alone[rewritten]
                logger.warning("%s: numbers in %s have another form than in the other table", path, listed(rewritten))
    joined, notes = _plain_numbers(pd.concat(tables, ignore_index=True).fillna(""), separators, labels)
    if notes:
        logger.warning("%s: %s", paths[0], "; ".join(notes))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    parts = [joined.iloc[rows] for rows in np.split(np.arange(len(joined)), ends)]
    return [part[table.columns].set_axis(table.index) for part, table in zip(parts, tables, strict=True)]


def as_read(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells as programs see them: as pandas reads them from a file."""
    seen = {}
    for name, column in cells.items():
        codes, values = pd.factorize(column, use_na_sentinel=False)  # equal texts are read once
        text = io.StringIO(csv_text(pd.DataFrame({name: values})))
        seen[name] = pd.read_csv(text, low_memory=False, skip_blank_lines=False).iloc[:, 0].take(codes).array
    return pd.DataFrame(seen, cells.index)


def as_times(cells: pd.Series) -> pd.Series:
    """The cells as what most of them are, numbers or dates in one of the ways to write them; others are missing."""
    most = pd.to_numeric(cells, errors="coerce")
    first = _has_days_first(cells)
    ways: list[dict[str, Any]] = [{"format": "ISO8601"}, {"dayfirst": first}, {"dayfirst": not first}]
    for options in [*ways, {"format": "mixed", "dayfirst": first}]:
        if most.notna().all():
            break
        most = max(most, _dates(cells, **options), key=pd.Series.count)
    return most


def are_unclear_dates(cells: pd.Series) -> bool:
    """Whether all cells are dates such as 03/02/01, 030201, 03022001, 03.2001 and 2001.3, which [`as_times`] may misread."""
    if cells.str.fullmatch(r"(?:19|20)\d\d\.(?:[1-9]|1[0-2])").all():
        return bool(cells.str.contains(r"\.1\d").any())  # October, as a number, comes before February
    formats = next((formats for pattern, formats in _UNCLEAR.items() if cells.str.fullmatch(pattern).all()), [])
    digits = cells.str.replace(r"[./-]|[ T].*", "", regex=True)
    digits = digits.str.zfill(digits.str.len().max())  # a spreadsheet drops a leading zero
    return any(pd.to_datetime(digits, format=way, errors="coerce").notna().all() for way in formats)


def order_in_dates(cells: pd.Series) -> str | None:
    """Which of day and month [`as_times`] takes for the first, if all cells have the other order just as well."""
    if pd.to_numeric(cells, errors="coerce").notna().all() or _dates(cells, format="ISO8601").notna().all():
        return None
    days_first = _has_days_first(cells)
    for options in dict[str, Any](), {"format": "mixed"}:
        taken, other = (_dates(cells, dayfirst=first, **options) for first in (days_first, not days_first))
        if taken.notna().all() or other.notna().all():
            break
    if taken.isna().any() or other.isna().any() or taken.equals(other):
        return None
    return "the day" if days_first else "the month"


def _dates(cells: pd.Series, **options: Any) -> pd.Series:
    # Beside a year of two digits, pandas would choose the order of day and month for each cell
    for decade, century in ("[0-6]", 20), ("[7-9]", 19):
        short = rf"^(\d\d?[./-]\d\d?[./-])({decade}\d)(?!\d)"
        cells = cells.str.replace(short, rf"\g<1>{century}\2", regex=True)
    with warnings.catch_warnings(action="ignore"):  # about guesses: those that do not fit all cells are dropped
        times = pd.to_datetime(cells, errors="coerce", utc=True, **options)
    # Without a year, pandas takes the first one, as in Jan-19, and for a time of day, today's
    return times.mask((times.dt.year == 1) | cells.str.fullmatch(r"\d{1,2}:\d\d.*"))


def _has_days_first(cells: pd.Series) -> bool:
    return bool(cells.str.match(r"\d{1,2}\.\d{1,2}\.").any())  # 31.12.2024


def clean_name(name: str) -> str:
    """A column's name without surrounding spaces and line ends."""
    return " ".join(name.split())


def listed(names: Iterable[object]) -> str:
    """The first names of a message."""
    names = list(names)
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def _read_table(path: Path) -> tuple[pd.DataFrame, str]:
    text, encoding = _text(path)
    separator = ";" if _has_one_column(text) else max(SEPARATORS, key=lambda sign: _fitness(text, sign))
    cells, short = _cells(path, text, separator)
    header, rows = [clean_name(name) for name in cells.iloc[0]], cells.iloc[1:]
    if _looks_like_data(header, rows):
        raise CompetitionError(
            f"the first line of {path} looks like data ({header[0]!r}, say): write a line with the columns' names above it"
        )
    rows = rows[(rows != "").any(axis=1)]
    rows, notes = _named(rows, header)
    if separator != "," and separator in text:
        notes.insert(0, f"separated by {SEPARATORS[separator]}")
    if encoding:
        notes.insert(0, f"read as {encoding}")
    if notes := notes + short:
        logger.warning("%s: %s", path, "; ".join(notes))
    rows.index += 1
    return rows, separator


def _text(path: Path) -> tuple[str, str]:
    """The file's text, and its encoding if that was guessed."""
    content = _content(path)
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    if encoding == "utf-8" and 0 in content[:2]:  # UTF-16 without a mark, if its first sign is a Latin one
        encoding = "utf-16-be" if content[0] == 0 else "utf-16-le"
    for guess, shown in (encoding, ""), ("cp1252", "Windows-1252 (Latin-1)"), ("latin-1", "Latin-1"):
        try:
            text = content.decode(guess)
        except UnicodeDecodeError:
            continue
        if "\0" in text or re.match(_OTHER_FORMAT, text):
            break
        return re.sub(r"\Asep=.(?=[\r\n])", "", text), shown  # a line that Excel writes
    raise CompetitionError(
        f"{path} is not CSV: save it as text with a header, separated by {' or '.join(SEPARATORS.values())} "
        f"({', '.join([*OPENERS, '.zip'])} are read, too)"
    )


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"there is no table {path}")
    kind = path.suffix.lower()
    try:
        if kind == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if not re.search(r"/$|^__MACOSX/|(?:^|/)\._", name)]
                if len(names) != 1:
                    raise CompetitionError(f"{path} holds {len(names)} files: take the table out of it")
                return archive.read(names[0])
        with OPENERS.get(kind, open)(path, "rb") as file:
            return file.read()
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        # `RuntimeError`: the archive is encrypted, or compressed in a way that Python lacks
        raise CompetitionError(f"{path} cannot be read: {error}") from error


def _cells(path: Path, text: str, separator: str) -> tuple[pd.DataFrame, list[str]]:
    """All cells as texts, the header among them, and what is odd about them."""
    cells = None
    try:
        width = len(_parsed(text, separator, nrows=1).columns)
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            # One more, because rows may end in a separator, and R writes no name above those of its rows
            cells = _parsed(text, separator, names=range(width + 1)).fillna("")
    except pd.errors.EmptyDataError as error:
        raise CompetitionError(f"{path} is empty") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        if found := re.search(r"EOF inside string starting at row (\d+)", str(error)):
            row = int(found[1]) + 1
            raise CompetitionError(f"{path} is not CSV: a quote that opens in row {row} is never closed") from error
    most = width + 1
    if cells is not None:
        cells = cells.apply(lambda column: column.str.strip())
        last = cells[width].iloc[1:]
        if not last.any():
            line = _line(text, separator, fewest=width) if (cells[width - 1] == "").any() else None
            return cells.drop(columns=width), [] if line is None else [f"line {line} has fewer cells than the header"]
        if last.all():
            cells.iloc[0] = ["", *cells.iloc[0, :-1]]
            return cells, []
        most = width
    raise CompetitionError(
        f"line {_line(text, separator, most)} of {path} has more cells than its header ({width}): quote texts that hold a "
        "separator, and delete lines that do not belong to the table"
    )


def _line(text: str, separator: str, most: float = np.inf, fewest: int = 0) -> int | None:
    """The line in which the first row with too many or too few cells begins."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    line = 1
    for row in rows:
        if row and not fewest <= len(row) <= most:
            return line
        line = rows.line_num + 1
    return None


def _has_one_column(text: str) -> bool:
    """Whether commas are decimal ones in the only column, and do not follow R's row names 1, 2, 3, …"""
    header, _, rows = text.partition("\n")
    if any(sign in header for sign in SEPARATORS) or not re.fullmatch(_COMMAS_ALONE, rows + "\n"):
        return False
    numbers = re.findall(r"(\d+),", rows)
    return len(numbers) > 0 and numbers != [str(number) for number in range(1, len(numbers) + 1)]


def _fitness(text: str, separator: str) -> tuple[bool, int]:
    """Whether the first rows have the same number of cells, and the least number: names and texts may hold other separators."""
    rows = csv.reader(io.StringIO(text[:100_000], newline=""), delimiter=separator)
    counts = [len(row) for row in islice(rows, 20) if row] or [0]
    if len(text) > 100_000:
        counts = counts[:-1] or counts  # the last row may be cut
    return min(counts) == max(counts) > 1, min(counts)


def _parsed(text: str, separator: str, **options: object) -> pd.DataFrame:
    return pd.read_csv(  # type: ignore[call-overload]
        io.StringIO(text), sep=separator, header=None, dtype=str, keep_default_na=False, index_col=False,
        skipinitialspace=True, **options,
    )  # fmt: skip


def _looks_like_data(header: Sequence[str], rows: pd.DataFrame) -> bool:
    """Whether numbers stand above all numbers, and labels above all labels."""
    numbers = []
    is_label = False
    for name, number, (_, cells) in zip(
        header, pd.to_numeric(pd.Series(header), errors="coerce"), rows.items(), strict=True
    ):
        known = cells[cells != ""]
        if len(known) and pd.to_numeric(known, errors="coerce").notna().all():
            if np.isnan(number):
                return False
            numbers.append(number)
        elif known.nunique() <= len(rows) / 2:
            if name not in known.array:
                return False
            is_label = True
    # Years and the positions of pixels are names
    return is_label or (len(numbers) > 0 and not (len(numbers) > 1 and bool((np.diff(numbers) > 0).all())))


def _named(rows: pd.DataFrame, header: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The columns with different names and without those that only count the rows, and what was done."""
    columns: dict[str, pd.Series] = {}
    counting, twice, renamed = [], [], []
    for number, (name, (_, cells)) in enumerate(zip(header, rows.items(), strict=True)):
        if re.fullmatch(r"(Unnamed: \d+)?", name):
            name = name or f"Unnamed: {number}"  # as pandas calls it
            # The index as written by `to_csv`, which may reveal the original order of the rows, or nothing at all
            if cells.str.fullmatch(r"\d+").all() or not cells.any():
                counting += [name] if cells.any() else []
                continue
        if name in columns:
            if cells.equals(columns[name]):
                twice.append(name)
                continue
            name = next(new for i in range(2, len(header) + 2) if (new := f"{name}_{i}") not in [*header, *columns])
            renamed.append(name)
        columns[name] = cells
    notes = []
    if counting:
        notes.append(f"left out {listed(counting)}, which numbers rows")
    if twice:
        notes.append(f"left out the second {listed(twice)}, which is the same")
    if renamed:
        notes.append(f"named a column that has another's name {listed(renamed)}")
    return pd.DataFrame(columns), notes


def _with_other_decimals(table: pd.DataFrame, tables: Collection[pd.DataFrame]) -> list[str]:
    """The columns that may have decimal commas here, and points in the other tables."""
    others = pd.concat([other for other in tables if other is not table] or [table.head(0)]).fillna("")

    def holds(cells: pd.Series, sign: str) -> bool:
        return bool(cells.str.contains(sign, regex=False).any())

    return [
        str(name)
        for name in table.columns.intersection(others.columns)
        if holds(table[name], ",") and holds(others[name], ".") and not holds(others[name], ",")
    ]


def _plain_numbers(
    cells: pd.DataFrame, separators: Collection[str], labels: Collection[str]
) -> tuple[pd.DataFrame, list[str]]:
    """The columns with numbers as pandas reads them, and what was done. Columns that may be something else stay as they are."""
    seen, cells = as_read(cells), cells.copy()
    numbers = seen.select_dtypes("number").columns
    with_dots = {
        name: found for name in numbers if len(found := cells[name][cells[name].str.contains(".", regex=False)])
    }
    grouped = {str(name): _different(found) for name, found in with_dots.items() if _fit(found, _DOTTED)}
    points, commas, either, extras = (dict[str, Any]() for _ in range(4))
    has_decimals = is_sure = False  # whether another column has decimal commas, and whether these are surely no pairs
    for name in cells.columns.difference(numbers, sort=False):
        known = _different(cells[name][seen[name].notna().to_numpy()])
        is_mark = known.str.fullmatch(_NOTHING)
        values = known[~is_mark]
        sign = values.str.extract(_SIGN)[0]
        if has_sign := sign.notna().all() and sign.nunique() == 1:
            values = values.str.replace(rf"\s*{_SIGN}\s*", "", n=1, regex=True)
        has_points = _fit(values, _POINT) and _are_thousands(values, ",", ".")
        has_commas = _fit(values, _COMMA) and _are_thousands(values, ".", ",")
        is_label = name in labels and (is_mark.any() or has_sign) and len(values) <= max(MOST_LABELS, len(cells) / 10)
        if values.empty or is_label or not (has_points or has_commas):
            continue
        if not has_points and (decimals := values.str.extract(r",(\d+)$")[0].dropna()).any():
            no_pairs = len(decimals) < len(values) or bool(
                decimals.str.match(r"0\d").any() or values.str.contains(rf"[.{_SPACES}]").any()
            )
            if not no_pairs and decimals.str.len().nunique() > 1 and decimals.str.endswith("0").any():
                continue  # such as 8,9 and 9,10
            has_decimals, is_sure = True, is_sure or no_pairs
        is_unclear = has_points and has_commas and values.str.contains(",", regex=False).any()
        (either if is_unclear else points if has_points else commas)[name] = values
        extras[name] = known[is_mark], sign.iloc[0] if has_sign else ""
    # 1,234 alone could be either: a decimal comma beside others or beside semicolons, unless another column has decimal points
    if "," in separators or not (has_decimals or (";" in separators and len(grouped) == len(with_dots))):
        points |= either
    elif has_decimals or not grouped:
        commas |= either
    notes = defaultdict[str, list[str]](list)
    if "," not in separators and len(grouped) == len(with_dots):
        if is_sure or (has_decimals and ";" in separators):
            commas |= grouped
        elif ";" in separators:
            notes["decimal points (leave them out if they separate thousands)"] = list(grouped)
    for name, values in (points | commas).items():
        separator = rf"[{',' if name in points else '.'}{_SPACES}]"
        plain = values.str.replace("−", "-").str.replace(separator, "", regex=True).str.replace(",", ".", regex=False)
        missing, sign = extras.get(name, ((), ""))
        for what, is_so in {
            "decimal commas": name in commas and values.str.contains(",", regex=False).any(),
            "thousands separators": values.str.contains(separator).any(),
            f"{sign} left out": sign,
            f"{listed(missing)} for a missing number": len(missing),
        }.items():
            if is_so:
                notes[what].append(name)
        written = plain.to_dict() | dict.fromkeys(missing, "")
        cells[name] = cells[name].map(written).fillna(cells[name])
    return cells, [f"{what} in {listed(names)}" for what, names in notes.items() if names]


def _different(cells: pd.Series) -> pd.Series:
    """The different cells, by themselves."""
    values = cells.unique()
    return pd.Series(values, values, dtype=str)


def _are_thousands(values: pd.Series, separator: str, point: str) -> bool:
    """Whether what separates groups of three digits, if anything, does not make addresses, versions, phone numbers or lists."""
    groups = values.str.count(f"[{separator}{_SPACES}]")
    if groups.max() < 2 or values.str.contains(point, regex=False).any():
        return True
    is_told = (groups > 0) | (values.str.len() <= 3)  # 7 beside 1,234,567
    return bool(is_told.all()) and groups.nunique() > 1 and not values.str.startswith("+").any()


def _fit(values: pd.Series, pattern: str) -> bool:
    return all(part.str.fullmatch(pattern).all() for part in (values.head(100), values))
