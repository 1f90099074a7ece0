"""Makes and loads generated tasks."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.catalog import Layout, competition_from_folder
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.families.structure import PREFIX, TEXTS, TRAPS, Structure, seeded, structure_of
from trl_mle.competitions.families.table_columns import Columns, draw_columns
from trl_mle.competitions.families.target import draw_target, guesses, split
from trl_mle.competitions.families.traps import as_numbers, mistaken, set_traps
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.mirrors.mirror import random_ids
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file


class ScoreRange(NamedTuple):
    """What can be scored at a task."""

    floor: float  # of the best constant by the training labels; of no correlation, where that is the metric
    ceiling: float  # of one who knows how the task is made, but not its noise: a program exceeds it by luck only

    def normalised(self, score: float) -> float:
        """The score, so that the floor is 0 and the ceiling 1; it may lie outside."""
        return (score - self.floor) / (self.ceiling - self.floor)


class Contents(NamedTuple):
    """A task with all that is known of it."""

    files: dict[str, pd.DataFrame]  # by path below the prepared folder
    notes: list[str]  # what the description says of the traps
    hints: list[str]  # those notes that stand in its overview, too
    facts: dict[str, Any]  # that a program which knows how the task is made may know; none of them is a label


def load_task(task_id: str) -> Competition:
    """Loads the task `task:train/<n>` or `task:test/<n>`, whose files are written on first use. Raises
    [`CompetitionError`] if the id is not understood, or the cache cannot be written."""
    layout = Layout(metric=structure_of(task_id).metric, id_column="id")
    prepared = cached_folder(task_id, path_slug(task_id), partial(make_task, task_id))
    return competition_from_folder(task_id, layout, prepared)


def score_range(task: Competition) -> ScoreRange:
    """The range of scores at a generated task, on all rows: for [`~trl_mle.competitions.Score`]'s `full`."""
    if not task.id.startswith(PREFIX):
        raise CompetitionError(f"{task.id!r} has no ceiling: only tasks such as 'task:train/0' have one")
    floor, ceiling = (task.grade(path).full for path in (task.sample_submission, task.answers.parent / "ceiling.csv"))
    assert floor is not None
    assert ceiling is not None
    return ScoreRange(floor if task.scoring.undefined is None else task.scoring.undefined, ceiling)


def make_task(task_id: str, prepared: Path) -> None:
    """Writes `public/` and `private/` of a task into a folder, the same bytes for the same id, see [`load_task`]."""
    files, notes, hints, facts = task_contents(task_id)
    for path, table in files.items():
        write_file(prepared / path, csv_text(table))
    sample = files["public/sample_submission.csv"]
    facts = facts | {"train": len(files["public/train.csv"]), "test": len(sample)}
    texts = {part: text.format(**facts) for part, text in TEXTS["description"].items()}
    texts["overview"] = " ".join([texts["overview"], *hints])
    texts["data"] = "\n- ".join([texts["data"], *notes])
    write_file(prepared / "public" / "description.md", description(**texts, sample=sample))


@lru_cache(maxsize=8)
def task_contents(task_id: str) -> Contents:
    """Draws a task: first its columns, then its signal, labels and split, then its traps."""
    structure, random = seeded(task_id)
    domain, traps = DOMAINS[structure.domain], structure.traps
    columns = draw_columns(structure, random)
    target = draw_target(structure, columns, random)
    lean = (1.3 * columns.shifted if "shift" in traps else 0) + random.normal(size=len(columns.shifted))
    is_test = split(lean, target.classes)
    noise_share = float(random.uniform(0.15, 0.3))
    recorded = mistaken(structure, target, ~is_test, noise_share, random) if "noise" in traps else target.labels
    set_traps(structure, columns, as_numbers(recorded, structure, random), is_test, random)

    features = pd.DataFrame(columns.table).iloc[:, random.permutation(len(columns.table))]
    train_rows = random.permutation(np.flatnonzero(~is_test))
    test_rows = random.permutation(np.flatnonzero(is_test))
    sample = guesses(target.answers.iloc[train_rows], structure.metric, len(test_rows))
    if "duplicates" in traps:
        again = train_rows[: len(train_rows) // 16]
        train_rows = random.permutation(np.concatenate([train_rows, random.choice(again, 10 * len(again))]))
    ids = pd.DataFrame({"id": random_ids(10_000, 1_000_000)(len(train_rows), len(test_rows), random)})
    test_ids = ids[len(train_rows) :]

    facts = _facts(structure, columns) | {"noise_share": noise_share, "classes": target.classes is not None}
    test = features.iloc[test_rows]
    lacks_leak = "leak" in traps and random.random_sample() < 1 / 3
    if lacks_leak:
        test = test.drop(columns=domain.leak)
    in_test = TEXTS["leak_missing" if lacks_leak else "leak_shuffled"].format(**facts)
    notes = [TRAPS[name].format(**facts, in_test=in_test) for name in traps]
    hints = [note for note in notes if random.random_sample() < 0.5]
    files = {
        "public/train.csv": _joined(ids[: len(train_rows)], features.iloc[train_rows], recorded.iloc[train_rows]),
        "public/test.csv": _joined(test_ids, test),
        "public/sample_submission.csv": _joined(test_ids, sample),
        "private/test.csv": _joined(test_ids, target.answers.iloc[test_rows]),
        "private/ceiling.csv": _joined(test_ids, target.ceiling.iloc[test_rows].round(9)),
    }
    return Contents(files, notes, hints, facts)


def _facts(structure: Structure, columns: Columns) -> dict[str, Any]:
    """What the texts and the programs of a task say of it."""
    domain = DOMAINS[structure.domain]
    empty, coded, typed, shifted = columns.main
    target, meaning = getattr(domain, structure.form)[:2]
    other, factor = OTHER_UNITS[typed.unit]
    facts = domain._asdict() | structure._asdict() | {"target": target, "meaning": meaning}
    facts |= {"empty": empty.column, "coded": coded.column, "code": columns.code, "shifted": shifted.column}
    facts |= {"typed": typed.name, "unit": typed.unit, "other": other, "factor": factor, "group": domain.group[0]}
    return facts | {
        "evaluation": TEXTS["metrics"][structure.metric][1],
        "direction": "higher" if METRICS[structure.metric].higher_is_better else "lower",
        "is_amount": structure.form == "amount",
        "category": next(name for name in domain.categories if name in columns.table),
        "date": domain.date if domain.date in columns.table else None,
        "text": domain.text[0] if domain.text[0] in columns.table else None,
    }


def _joined(*tables: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Tables side by side, row by row."""
    return pd.concat([table.reset_index(drop=True) for table in tables], axis=1)
