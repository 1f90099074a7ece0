"""The prompt for a solution from scratch, built from the competition's files."""

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits
from trl_mle.prompts.ideas import Idea
from trl_mle.prompts.opening import known_opening
from trl_mle.prompts.tables import condensed, find_table, is_text, read_table
from trl_mle.prompts.tokens import estimate_tokens, shorten
from trl_mle.prompts.untrusted_text import plain_text
from trl_mle.showing import metric_in_words


# The paper's limit minus a chat template: Qwen2.5's, with its system message, takes 30 tokens.
MAX_TOKENS = 1024 - 40
SECTION_TOKENS = 160  # of the overview; the section about the evaluation gets half of it
FILES_TOKENS = 103  # that a begun program leaves for the files, if it can be shorter
LINE_TOKENS = 60  # of each line of the example submission
NAME_CHARS = 80


class Detail(NamedTuple):
    """Amount of detail about the public files."""

    files: int  # to list
    names: int  # of a table's columns; a numbered run has four at most
    rows: int  # example rows of a table
    cells: int  # of an example row
    chars: int  # of a cell


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
SUBMISSION = Detail(files=0, names=12, rows=2, cells=12, chars=20)

_TASK = """\
Kaggle competition: {id}

{overview}

Metric: {metric} ({direction} is better).{evaluation}

{files}

{goal}{rules} The program writes submission.csv{sample}:
{submission}

Limits: {timeout_s:g} seconds, {memory_mb} MB of memory, no network (no pip install, no pretrained weights). \
Installed are only {packages}.

"""

# Package names that differ from the import name
INSTALLED_AS = {"sklearn": "scikit-learn", "PIL": "pillow"}

# The end of every prompt
PROGRAM_FORM = """\
one complete Python program in a ```python block. It reads its data from input/ and writes submission.csv to the \
working directory."""
_ASK = f"Write a short plan, then {PROGRAM_FORM}"
_ASK_AGENT = """\
Look at the files with read_file. Run Python programs with start_program, {count} at most, and see with \
wait_for_program what came out. A program reads its data from input/ and writes submission.csv to the working \
directory; nothing else is kept from one to the next. The last program that you start is graded, and only \
on whether its submission is valid and how well it scores."""
PROGRAM_ALONE = "Answer with one complete Python program in a ```python block, and nothing else."


def scratch_prompt(
    comp: Competition, limits: Limits | None = None, begin_program: bool = False, idea: Idea | None = None
) -> list[dict[str, str]]:
    """
    Builds the prompt for a solution from scratch, in at most 1,024 tokens by [`estimate_tokens`], including a chat
    template. The public files are described in as much detail as fits.

    Args:
        comp ([`~trl_mle.competitions.Competition`]), limits ([`~trl_mle.execution.Limits`], *optional*):
            The competition, and an executor's limits; defaults to `Limits()`.
        begin_program (`bool`, *optional*, defaults to `False`):
            Whether to begin the answer, see [`~trl_mle.prompts.opening`], instead of asking for a plan first.
        idea ([`~trl_mle.prompts.Idea`], *optional*):
            What the program is to fit.

    Returns:
        `list[dict[str, str]]`: A user message and, with `begin_program`, the beginning of the assistant's.
    """
    limits = limits or Limits()
    begun = known_opening(comp, idea) if begin_program else ""
    ask = PROGRAM_ALONE if begin_program else _ASK
    if idea is not None and idea.fit not in begun:
        ask += f" Fit {idea.name}."
    parts = _parts(comp, limits, SECTION_TOKENS)
    room = MAX_TOKENS - estimate_tokens(ask) - estimate_tokens(_TASK.format(files="", **parts))
    for without in (("means",), ("means", "dates")) if begin_program else ():
        if room - estimate_tokens(begun) < FILES_TOKENS:
            begun = known_opening(comp, idea, without)
    files = _files(comp, max(0, room - estimate_tokens(begun)))
    user = {"role": "user", "content": _TASK.format(files=files, **parts) + ask}
    return [user, {"role": "assistant", "content": begun}] if begin_program else [user]


def agent_prompt(comp: Competition, limits: Limits, max_programs: int) -> list[dict[str, str]]:
    """Builds the prompt for an agent with the tools of an [`~trl_mle.environments.MLEEnvironment`]."""
    ask = _ASK_AGENT.format(count=max_programs)
    return [{"role": "user", "content": task(comp, limits, SECTION_TOKENS, MAX_TOKENS - estimate_tokens(ask)) + ask}]


def task(comp: Competition, limits: Limits, section_tokens: int, max_tokens: int) -> str:
    """Describes the task."""
    parts = _parts(comp, limits, section_tokens)
    room = max_tokens - estimate_tokens(_TASK.format(files="", **parts))
    return _TASK.format(files=_files(comp, max(0, room)), **parts)


def _parts(comp: Competition, limits: Limits, section_tokens: int) -> dict[str, Any]:
    """What the description of a task holds, but its files."""
    overview, evaluation = map(plain_text, _sections(comp.description))
    sample = pd.read_csv(comp.sample_submission, nrows=2)
    return {
        "id": _clip(comp.id, NAME_CHARS),
        "overview": shorten(overview, section_tokens),
        "evaluation": f" {shorten(evaluation, section_tokens // 2)}".rstrip(),
        "metric": metric_in_words(comp.metric),
        "direction": "higher" if comp.higher_is_better else "lower",
        "goal": _goal(comp),
        "sample": _sample(comp),
        "submission": "\n".join(shorten(line, LINE_TOKENS) for line in _shown(sample, SUBMISSION)),
        "rules": f" {submission_rules(comp)}".rstrip(),
        "timeout_s": limits.timeout_s,
        "memory_mb": limits.memory_mb,
        "packages": ", ".join(INSTALLED_AS.get(name, name) for name in limits.packages),
    }


def _sections(description: str) -> tuple[str, str]:
    """The overview and the section "Evaluation", each as one paragraph."""
    overview, *rest = re.split(r"(?mi)^#+ *evaluation.*$", description, maxsplit=1)
    overview = re.split(r"(?mi)^#+ *overview.*$", overview, maxsplit=1)[-1]
    evaluation = re.split(r"(?m)^#", rest[0].strip(), maxsplit=1)[0] if rest else ""
    return " ".join(re.sub(r"(?m)^#.*$", "", overview).split()), " ".join(evaluation.split())


def _goal(comp: Competition) -> str:
    """Names the columns to predict and, if the tables show them, the columns to learn from."""
    names = _clipped(comp.target_columns)
    known = ", ".join(names) if len(names) <= 4 else f"the {len(names)} columns {names[0]}, {names[1]}, …, {names[-1]}"
    targets, each = shorten(known, LINE_TOKENS), shorten(_clip(comp.id_column, NAME_CHARS), LINE_TOKENS)
    train, test = find_table(comp, "train"), find_table(comp, "test")
    if train is not None and test is not None:
        lacking = _clipped(name for name in train[1].columns if name not in test[1].columns)
        if len(lacking) == 1 and lacking != names:
            return f"Learn {lacking[0]} from {train[0].name}, and predict {targets} for each {each}."
    return f"Predict {targets} for each {each}."


def _sample(comp: Competition) -> str:
    """Where the ids are, unless the test table has them: small models write to files named like submissions."""
    test = find_table(comp, "test")
    is_shown = comp.sample_submission.parent == comp.public_dir  # MLE-bench hides a few
    if not is_shown or (test is not None and comp.id_column in test[1].columns):
        return ""
    return f", with the columns and ids of input/{_clip(comp.sample_submission.name, NAME_CHARS)}"


def submission_rules(comp: Competition) -> str:
    """The rules for valid submissions, as sentences; may be empty."""
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
    hidden, rank = (comp.public_dir / "description.md", comp.sample_submission), {"train": 0, "test": 1}
    paths = [path for path in comp.public_dir.iterdir() if path not in hidden]
    paths.sort(key=lambda path: (path.is_dir(), rank.get(path.stem, 2), path.name))
    tables = {path: table for path in paths[: DETAILS[0].files] if (table := read_table(path)) is not None}
    candidates: list[Path | None] = [*list(tables)[:2]] or [None]
    for detail in DETAILS:
        for whole in candidates:
            text = "\n".join(_entries(paths, tables, whole, detail))
            if estimate_tokens(text) <= room:
                return text
    return shorten(", ".join(f"input/{_clip(path.name, NAME_CHARS)}" for path in paths), room)


def _entries(paths: list[Path], tables: dict[Path, pd.DataFrame], whole: Path | None, detail: Detail) -> Iterator[str]:
    """One entry per file: a table in full, with example rows, the others by how their columns differ."""
    paths = sorted(paths, key=lambda path: path != whole)
    for path in paths[: detail.files]:
        name = f"input/{_clip(path.name, NAME_CHARS)}"
        if path.is_dir():
            yield name + _content(path)
        elif path not in tables:
            yield name
        elif path == whole or whole is None or (more := _difference(tables[path], tables[whole], detail)) is None:
            yield "\n".join([f"{name}, {len(tables[path].columns)} columns:", *_table(tables[path], detail)])
        else:
            yield f"{name}: the columns of {_clip(whole.name, NAME_CHARS)}{more}"
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
    names = ", ".join(_names(lacking or added, detail.names))
    return names and f" {'without' if lacking else 'and'} {names}"


def _table(table: pd.DataFrame, detail: Detail) -> list[str]:
    """The header, some rows, and what they may not tell: which columns hold text, and which lack values."""
    lines = _shown(table, detail)
    notes = (
        ("Text", [name for name in table.columns if is_text(table[name])]),
        ("Values are missing in", [name for name in table.columns if table[name].isna().any()]),
    )
    lines += [f"{what}: {', '.join(_names(found, min(detail.names, 20)))}" for what, found in notes if found]
    return lines


def _shown(table: pd.DataFrame, detail: Detail) -> list[str]:
    """Lines of CSV: the header, without the middle of numbered runs, and the first rows."""
    header = _names(list(table.columns), detail.names)
    columns = dict(zip(_clipped(table.columns), table.columns, strict=True)) | {"…": "…"}
    rows = [
        [_clip(_cell(row.get(columns[name], "…")), detail.chars) for name in _leave_out_middle(header, detail.cells)]
        for _, row in table.head(detail.rows).astype(object).iterrows()
    ]
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([header, *rows])  # quotes a cell with a comma
    return lines.getvalue().splitlines()


def _names(names: list[str], count: int) -> list[str]:
    return _leave_out_middle(condensed(_clipped(names)), count)


def _clipped(names: Iterable[str]) -> list[str]:
    return [_clip(str(name), NAME_CHARS) for name in names]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else min(str(value), f"{value:.6g}", key=len)
    return str(value)


def _leave_out_middle(items: list[str], count: int) -> list[str]:
    return items if len(items) <= count else [*items[: count - 1], "…", items[-1]]


def _clip(text: str, chars: int) -> str:
    text = " ".join(plain_text(text[: 10 * chars]).split())
    return text if len(text) <= chars else f"{text[:chars]}…"
