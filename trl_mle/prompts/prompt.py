"""The prompt for a solution from scratch, built from the competition's files."""

import csv
import io
import json
import math
import os
import re
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits
from trl_mle.prompts.foreign import plain_text
from trl_mle.prompts.tokens import estimate_tokens, shorten


# The paper's limit minus a chat template: Qwen2.5's, with its system message, takes 30 tokens.
MAX_TOKENS = 1024 - 40
# Tokens of the overview, and of the section about the evaluation
SECTION_TOKENS = 180
# Tokens of each line of the example submission
LINE_TOKENS = 60
# Characters of a name, whose end matters; longer names are rare
NAME_CHARS = 80
# Beginning of a table that is read
ROWS_READ = 100
JSON_CHARS_READ = 2**20


class Detail(NamedTuple):
    """
    Amount of detail about the public files.

    Args:
        files (`int`):
            Number of files to list.
        names (`int`):
            Number of column names of a table; a numbered range counts as one.
        rows (`int`):
            Number of example rows of a table.
        cells (`int`):
            Number of cells of an example row.
        chars (`int`):
            Number of characters of a cell.
    """

    files: int
    names: int
    rows: int
    cells: int
    chars: int


# The first that fits is used: text in cells is reduced first, then cells, rows, column names, and files
DETAILS = (
    Detail(files=20, names=60, rows=2, cells=10, chars=80),
    Detail(files=20, names=60, rows=2, cells=10, chars=40),
    Detail(files=20, names=60, rows=2, cells=8, chars=20),
    Detail(files=20, names=60, rows=1, cells=8, chars=20),
    Detail(files=20, names=60, rows=0, cells=0, chars=0),
    Detail(files=10, names=20, rows=0, cells=0, chars=0),
    Detail(files=5, names=8, rows=0, cells=0, chars=0),
    Detail(files=5, names=3, rows=0, cells=0, chars=0),
)

_Item = TypeVar("_Item")
_SEPARATOR = re.compile(r"[\s,\[]*")

_TASK = """\
Kaggle competition: {id}

{overview}

Metric: {metric} ({direction} is better).{evaluation}

Files:
{files}

Submission: submission.csv, with the columns and ids of input/{sample}:
{submission}
Predict {targets} for each {id_column}.{rules}

Limits: {timeout_s:g} seconds, {memory_mb} MB of memory, no network (no pip install, no pretrained weights). Installed: {packages}.

"""

# Package names that differ from the import name
INSTALLED_AS = {"sklearn": "scikit-learn", "PIL": "pillow"}

# The end of every prompt
PROGRAM_FORM = """\
one complete Python program in a ```python block. It reads its data from input/ and writes submission.csv to the working \
directory."""
_ASK = f"Write a short plan, then {PROGRAM_FORM}"


def scratch_prompt(
    comp: Competition,
    limits: Limits | float | None = None,
    memory_mb: int | None = None,
    timeout_s: float | None = None,
) -> list[dict[str, str]]:
    """
    Builds the prompt for a solution from scratch, in at most 1,024 tokens by [`estimate_tokens`], including a chat
    template.

    Task, metric, submission format, limits and answer format are always included. The files get the remaining tokens,
    in as much detail as fits.

    Args:
        comp ([`~trl_mle.competitions.Competition`]):
            The competition.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Limits of a program: an executor's `limits`. Defaults to `Limits()`.
        memory_mb (`int`), timeout_s (`float`):
            Deprecated arguments of version 0.1.0, as is a number of seconds for `limits`.

    Returns:
        `list[dict[str, str]]`: A conversation of one user message, whose first line names the competition.
    """
    if not isinstance(limits, Limits):
        old = {"timeout_s": limits if timeout_s is None else timeout_s, "memory_mb": memory_mb}
        given: dict[str, Any] = {name: value for name, value in old.items() if value is not None}
        if given:
            message = "scratch_prompt: timeout_s and memory_mb will be removed in 0.3: give limits=Limits(timeout_s, memory_mb)"
            warnings.warn(message, FutureWarning, stacklevel=2)
        limits = Limits(**given)
    content = task(comp, limits, SECTION_TOKENS, MAX_TOKENS - estimate_tokens(_ASK)) + _ASK
    return [{"role": "user", "content": content}]


def task(comp: Competition, limits: Limits, section_tokens: int, max_tokens: int) -> str:
    """
    Describes the task.

    Args:
        comp ([`~trl_mle.competitions.Competition`]):
            The competition.
        limits ([`~trl_mle.execution.Limits`]):
            Limits of a program.
        section_tokens (`int`):
            Estimated tokens of the overview, and of the section about the evaluation.
        max_tokens (`int`):
            Estimated tokens of the whole text; the files get the remainder. Without the files, the text may take a few
            hundred.

    Returns:
        `str`: The text, ending with an empty line.
    """
    overview, evaluation = map(plain_text, _sections(comp.description))
    parts = {
        "id": _clip(comp.id, NAME_CHARS),
        "overview": shorten(overview, section_tokens),
        "evaluation": _next_sentence(shorten(evaluation, section_tokens)),
        "metric": comp.metric.replace("_", " "),
        "direction": "higher" if comp.higher_is_better else "lower",
        "sample": _clip(comp.sample_submission.name, NAME_CHARS),
        "submission": _submission(comp.sample_submission),
        "targets": _targets(comp.target_columns),
        "id_column": shorten(_clip(comp.id_column, NAME_CHARS), LINE_TOKENS),
        "rules": _next_sentence(_rules(comp)),
        "timeout_s": limits.timeout_s,
        "memory_mb": limits.memory_mb,
        "packages": ", ".join(INSTALLED_AS.get(name, name) for name in limits.packages),
    }
    room = max_tokens - estimate_tokens(_TASK.format(files="", **parts))
    return _TASK.format(files=_files(comp, max(0, room)), **parts)


def _next_sentence(text: str) -> str:
    return f" {text}" if text else ""


def _sections(description: str) -> tuple[str, str]:
    """The overview and the section "Evaluation", each as one paragraph."""
    overview, *rest = re.split(r"(?mi)^#+ *evaluation.*$", description, maxsplit=1)
    overview = re.split(r"(?mi)^#+ *overview.*$", overview, maxsplit=1)[-1]
    evaluation = re.split(r"(?m)^#", rest[0].strip(), maxsplit=1)[0] if rest else ""
    return " ".join(re.sub(r"(?m)^#.*$", "", overview).split()), " ".join(evaluation.split())


def _submission(sample: Path) -> str:
    """The header of the sample submission and two of its rows."""
    table = pd.read_csv(sample, nrows=2)
    header = ", ".join(_leave_out_middle(_condense(list(table.columns)), 12, "…"))
    return "\n".join(shorten(line, LINE_TOKENS) for line in [header, *_rows(table, cells=12, chars=20)])


def _targets(columns: tuple[str, ...]) -> str:
    names = _condense(list(columns))
    text = ", ".join(names) if len(names) <= 4 else f"the {len(columns)} columns {names[0]}, …, {names[-1]}"
    return shorten(text, LINE_TOKENS)


def _rules(comp: Competition) -> str:
    rules = [comp.rule]
    if comp.id_first:
        rules.append(f"{_clip(comp.id_column, NAME_CHARS)} is the first column.")
    if comp.exact_columns:
        rules.append("No other columns.")
    if comp.in_file_order:
        rules.append("Rows are compared in the order of the sample, whatever the ids.")
    return " ".join(filter(None, rules))


def _files(comp: Competition, room: int) -> str:
    """Describes the public files in as much detail as fits this many tokens."""
    paths = [path for path in comp.public_dir.iterdir() if path.name != "description.md"]
    # train comes first, then test.
    rank = {"train": 0, "test": 1}
    paths.sort(key=lambda path: (path.is_dir(), rank.get(path.stem, 2), path.name))
    paths = [path for path in paths if path != comp.sample_submission]
    tables = {path: table for path in paths[: DETAILS[0].files] if (table := _read_table(path)) is not None}
    candidates: list[Path | None] = [*list(tables)[:2]] or [None]
    for detail in DETAILS:
        for whole in candidates:
            text = "\n".join(_entries(paths, tables, whole, detail))
            if estimate_tokens(text) <= room:
                return text
    return shorten(", ".join(f"input/{_clip(path.name, NAME_CHARS)}" for path in paths), room)


def _entries(paths: list[Path], tables: dict[Path, pd.DataFrame], whole: Path | None, detail: Detail) -> Iterator[str]:
    """One entry per file. One table is described in full, with example rows; the others by how their columns differ."""
    paths = sorted(paths, key=lambda path: path != whole)
    for path in paths[: detail.files]:
        name = f"input/{_clip(path.name, NAME_CHARS)}"
        if path.is_dir():
            yield name + _content(path)
        elif path not in tables:
            yield name
        elif (
            path == whole or whole is None or (difference := _difference(tables[path], tables[whole], detail)) is None
        ):
            rows = _rows(tables[path].head(detail.rows), detail.cells, detail.chars)
            yield "\n".join([f"{name}: {_columns(tables[path], detail.names)}", *rows])
        else:
            yield f"{name}: the columns of {_clip(whole.name, NAME_CHARS)}{difference}"
    if len(paths) > detail.files:
        yield f"and {len(paths) - detail.files} more"


def _content(folder: Path) -> str:
    """The number of files or folders in a folder, and the first of them."""
    names = sorted(os.listdir(folder))
    if not names:
        return "/: empty"
    first = folder / names[0]
    inside = sorted(os.listdir(first))[:1] if first.is_dir() else []
    kind = "folders" if first.is_dir() else "files"
    return f"/: {len(names)} {kind} such as {'/'.join(_clip(name, NAME_CHARS) for name in [names[0], *inside])}"


def _difference(table: pd.DataFrame, whole: pd.DataFrame, detail: Detail) -> str | None:
    """The columns that a table lacks or adds compared with another; `None` if they differ otherwise."""
    lacking = [name for name in whole.columns if name not in table.columns]
    added = [name for name in table.columns if name not in whole.columns]
    if lacking and added:
        return None
    if added:
        return f" and {_columns(table[added], detail.names)}"
    return f" without {', '.join(_leave_out_middle(_condense(lacking), detail.names, '…'))}" if lacking else ""


def _read_table(path: Path) -> pd.DataFrame | None:
    """The first rows of a CSV or JSON file; `None` if it is not a table."""
    try:
        if path.suffix == ".csv":
            return pd.read_csv(path, nrows=ROWS_READ)
        if path.suffix == ".json":
            records = _json_records(path)
            return pd.DataFrame(records) if records and all(isinstance(record, dict) for record in records) else None
    except ValueError:  # pandas raises it for files of another format or encoding
        pass
    return None


def _json_records(path: Path) -> list[object]:
    """The first elements of a JSON list or of JSON lines. Only the beginning of the file is read."""
    with path.open(encoding="utf-8") as file:
        text = file.read(JSON_CHARS_READ)
    decoder, records = json.JSONDecoder(), list[object]()
    position = _SEPARATOR.match(text).end()  # type: ignore[union-attr]
    while position < len(text) and len(records) < ROWS_READ:
        try:
            record, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError:  # the end of the list, or of the part read
            break
        records.append(record)
        position = _SEPARATOR.match(text, position).end()  # type: ignore[union-attr]
    return records


def _columns(table: pd.DataFrame, names: int) -> str:
    """The columns by type, in order, with numbered runs condensed: `str: id; int: pixel_0..pixel_63, label`."""
    types = {"i": "int", "u": "int", "f": "float", "b": "bool"}
    typed = [(types.get(column.dtype.kind, "str"), str(name)) for name, column in table.items()]
    by_type = [(kind, [name for _, name in group]) for kind, group in groupby(typed, key=lambda pair: pair[0])]
    runs = [(kind, run) for kind, group in by_type for run in _condense(group)]
    groups = groupby(_leave_out_middle(runs, names, ("", "…")), key=lambda pair: pair[0])
    return "; ".join(f"{kind}: " * bool(kind) + ", ".join(name for _, name in group) for kind, group in groups)


def _condense(names: list[str]) -> list[str]:
    """The names, with numbered sequences condensed to ranges."""

    def stem(numbered: tuple[int, str]) -> tuple[str, int]:
        # Equal for neighbours in a sequence: the name without its number, and the number minus the position.
        position, name = numbered
        prefix, number = re.fullmatch(r"(.*?)([0-9]*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        return (prefix, int(number) - position) if number else (name, 0)

    runs = [[_clip(name, NAME_CHARS) for _, name in run] for _, run in groupby(enumerate(names), key=stem)]
    return [text for run in runs for text in ([f"{run[0]}..{run[-1]}"] if len(run) > 2 else run)]


def _rows(table: pd.DataFrame, cells: int, chars: int) -> list[str]:
    """Lines of CSV, where a cell with a comma is quoted."""
    rows = ([_clip(_cell(value), chars) for value in row] for row in table.itertuples(index=False, name=None))
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(_leave_out_middle(row, cells, "…") for row in rows)
    return lines.getvalue().splitlines()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else min(str(value), f"{value:.6g}", key=len)
    return str(value)


def _leave_out_middle(items: list[_Item], count: int, mark: _Item) -> list[_Item]:
    return items if len(items) <= count else [*items[: count - 1], mark, items[-1]]


def _clip(text: str, chars: int) -> str:
    text = " ".join(plain_text(text[: 10 * chars]).split())
    return text if len(text) <= chars else f"{text[:chars]}…"
