"""The public tables of a competition, as prompts show them."""

import json
import re
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pandas as pd

from trl_mle.competitions import Competition


# Beginning of a table that is read
ROWS_READ = 100
JSON_CHARS_READ = 2**20

_SEPARATOR = re.compile(r"[\s,\[]*")


def find_table(comp: Competition, stem: str, rows: int = ROWS_READ) -> tuple[Path, pd.DataFrame] | None:
    """The public table of this name, `train` or `test`, and its first rows, if it exists."""
    for path in (comp.public_dir / f"{stem}.csv", comp.public_dir / f"{stem}.json"):
        if (table := read_table(path, rows)) is not None:
            return path, table
    return None


def read_table(path: Path, rows: int = ROWS_READ) -> pd.DataFrame | None:
    """The first rows of a CSV or JSON file; `None` if it is not a table. No more than 100 are read of JSON."""
    if not path.is_file():  # a folder may be called so, too
        return None
    with suppress(ValueError):  # pandas raises it for files of another format or encoding
        if path.suffix == ".csv":
            return pd.read_csv(path, nrows=rows, low_memory=False)
        if path.suffix == ".json":
            records = _json_records(path)
            return pd.DataFrame(records) if records and all(isinstance(record, dict) for record in records) else None
    return None


def _json_records(path: Path) -> list[object]:
    """The first elements of a JSON list or of JSON lines. Only the beginning of the file is read."""
    with path.open(encoding="utf-8") as file:
        text = file.read(JSON_CHARS_READ)
    decoder, records, position = json.JSONDecoder(), list[object](), 0
    with suppress(json.JSONDecodeError):  # the end of the list, or of the part read
        while len(records) < ROWS_READ:
            start = _SEPARATOR.match(text, position).end()  # type: ignore[union-attr]
            record, position = decoder.raw_decode(text, start)
            records.append(record)
    return records


def is_text(column: pd.Series) -> bool:
    """Whether a column holds text, and not numbers or truth values."""
    return column.dtype.kind not in "iufb"


def condensed(names: list[str]) -> list[str]:
    """The names, with numbered runs shortened: `pixel_0, pixel_1, …, pixel_63`."""

    def stem(numbered: tuple[int, str]) -> tuple[str, int]:
        # Equal for neighbours in a run
        position, name = numbered
        prefix, number = re.fullmatch(r"(.*?)([0-9]*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        return (prefix, int(number) - position) if number else (name, 0)

    runs = [[name for _, name in run] for _, run in groupby(enumerate(names), key=stem)]
    return [name for run in runs for name in ([*run[:2], "…", run[-1]] if len(run) > 4 else run)]
