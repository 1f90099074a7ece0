"""The prompt that asks for a solution from scratch, made from the competition's own files."""

import re
from itertools import groupby

import pandas as pd

from trl_mle.competitions import Competition


# Lengths that keep the prompt of a small competition below the paper's 1,024 tokens.
SECTION_CHARS = 600
CELL_CHARS = 60
ROW_CELLS = 8
COLUMN_RUNS = 40

_TEMPLATE = """\
Kaggle competition: {id}

{overview}

Metric: {metric} ({direction} is better). {evaluation}

Files:
{files}

Submission: submission.csv, with the columns and ids of input/{sample}: {submission_columns}
{submission_rows}

Limits: {timeout_s:g} seconds, {memory_mb} MB of memory, no network. Installed: numpy, pandas, scipy, scikit-learn.

Write a short plan, then one complete Python program in a ```python block. It reads its data from input/ and writes \
submission.csv to the working directory."""


def scratch_prompt(comp: Competition, timeout_s: float, memory_mb: int) -> list[dict[str, str]]:
    """
    Ask for a solution from scratch.

    Args:
        comp ([`~trl_mle.competitions.Competition`]):
            The competition.
        timeout_s (`float`):
            How long a program may run, in seconds.
        memory_mb (`int`):
            How much memory it may use, in MB.

    Returns:
        `list[dict[str, str]]`: A conversation of one user message, whose first line names the competition.
    """
    sample = pd.read_csv(comp.sample_submission, nrows=2)
    overview, evaluation = _sections(comp.description)
    content = _TEMPLATE.format(
        id=comp.id,
        overview=overview,
        evaluation=evaluation,
        metric=comp.metric.replace("_", " "),
        direction="higher" if comp.higher_is_better else "lower",
        files=_files(comp),
        sample=comp.sample_submission.name,
        submission_columns=_columns(sample),
        submission_rows=_rows(sample),
        timeout_s=timeout_s,
        memory_mb=memory_mb,
    )
    return [{"role": "user", "content": content}]


def _sections(description: str) -> tuple[str, str]:
    """The overview and what follows the heading "Evaluation", each cut after a sentence."""
    overview, *rest = re.split(r"(?mi)^#+ *evaluation.*$", description, maxsplit=1)
    overview = re.split(r"(?mi)^#+ *overview.*$", overview, maxsplit=1)[-1]
    evaluation = re.split(r"(?m)^#", rest[0].strip(), maxsplit=1)[0] if rest else ""
    return _shorten(re.sub(r"(?m)^#.*$", "", overview)), _shorten(evaluation)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= SECTION_CHARS:
        return text
    return text[: text.rfind(". ", 0, SECTION_CHARS) + 1 or SECTION_CHARS]


def _files(comp: Competition) -> str:
    """One entry for each public file: of a table its columns and two rows, unless train.csv shows them already."""
    # train.csv comes first, so that test.csv can be told by what it lacks.
    paths = sorted(comp.public_dir.iterdir(), key=lambda path: (path.name != "train.csv", path.name))
    train: list[str] = []
    entries = []
    for path in paths:
        if path in (comp.public_dir / "description.md", comp.sample_submission):
            continue
        if path.is_dir():
            entries.append(f"input/{path.name}/: {sum(1 for _ in path.iterdir())} files")
        elif path.suffix == ".csv":
            table = pd.read_csv(path, nrows=1000)
            columns = list(table.columns)
            if train and columns == [name for name in train if name in columns]:
                lacking = [name for name in train if name not in columns]
                entries.append(f"input/{path.name}: the columns of train.csv without {', '.join(lacking)}")
            else:
                entries.append(f"input/{path.name}: {_columns(table)}\n{_rows(table.head(2))}")
            train = train or columns
        else:
            entries.append(f"input/{path.name}")
    return "\n".join(entries)


def _columns(table: pd.DataFrame) -> str:
    """The columns by type, in order, with numbered runs condensed: `str: id; int: pixel_0..pixel_63, label`."""
    types = {"i": "int", "u": "int", "f": "float", "b": "bool"}
    typed = [(types.get(table[name].dtype.kind, "str"), name) for name in table.columns]
    by_type = [(kind, [name for _, name in group]) for kind, group in groupby(typed, key=lambda pair: pair[0])]
    return "; ".join(f"{kind}: {', '.join(_condense(names))}" for kind, names in by_type)


def _condense(names: list[str]) -> list[str]:
    def stem(numbered: tuple[int, str]) -> tuple[str, int]:
        # Equal for neighbours that count up: the name without its number, and the number less the position.
        position, name = numbered
        prefix, number = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
        return (prefix, int(number) - position) if number else (name, 0)

    runs = [[name for _, name in run] for _, run in groupby(enumerate(names), key=stem)]
    texts = [f"{run[0]}..{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return texts if len(texts) <= COLUMN_RUNS else [*texts[: COLUMN_RUNS - 1], "…", texts[-1]]


def _rows(table: pd.DataFrame) -> str:
    return "\n".join(_row(row) for row in table.itertuples(index=False, name=None))


def _row(values: tuple[object, ...]) -> str:
    cells = [" ".join(str(value).split()) for value in values]
    cells = [cell if len(cell) <= CELL_CHARS else f"{cell[:CELL_CHARS]}…" for cell in cells]
    return ",".join(cells if len(cells) <= ROW_CELLS else [*cells[: ROW_CELLS - 1], "…", cells[-1]])
