"""Makes and loads generated tasks."""

import hashlib
import re
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.catalog import Layout, competition_from_folder
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.families import traps as trap
from trl_mle.competitions.families.signals import Features
from trl_mle.competitions.families.solutions import plain_program, reference_program
from trl_mle.competitions.families.structure import EVALUATIONS, TRAPS, Structure, draw_structure
from trl_mle.competitions.families.table_columns import draw_names, draw_numbers, draw_texts, latent_values, measured
from trl_mle.competitions.families.target import draw_target, guesses, split
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.mirrors.mirror import integer_ids
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file


PREFIX = "task:"
SIZES = (900, 1200, 1500)  # rows of train.csv and test.csv together, of which a third is the latter
CODES = (-999, -99, -1000)


class ScoreRange(NamedTuple):
    """What can be scored at a task."""

    # Of the best constant by the training labels; of no correlation, where that is the metric
    floor: float
    # Of one who knows how the task is made, but not the noise in its labels: a program exceeds it by luck only
    ceiling: float

    def normalised(self, score: float) -> float:
        """The score, so that the floor is 0 and the ceiling 1; it may lie outside."""
        return (score - self.floor) / (self.ceiling - self.floor)


class _Task(NamedTuple):
    structure: Structure
    train: pd.DataFrame
    test: pd.DataFrame
    answers: pd.DataFrame
    ceiling: pd.DataFrame
    sample: pd.DataFrame
    hints: list[str]
    notes: list[str]
    facts: dict[str, Any]  # that a program which knows how the task is made may know; none of them is a label


def load_task(task_id: str) -> Competition:
    """
    Load the task `task:train/<n>` or `task:test/<n>`, with a whole number n; its files are written on first use. Raises
    [`CompetitionError`] if the id is not understood, or the cache cannot be written.
    """
    structure, _ = _seeded(task_id)
    prepared = cached_folder(task_id, path_slug(task_id), partial(make_task, task_id))
    return competition_from_folder(task_id, Layout(metric=structure.metric, id_column="id"), prepared)


def structure_of(task_id: str) -> Structure:
    """The structure of a task; see [`load_task`] for its id."""
    return _seeded(task_id)[0]


def reference_solution(task_id: str) -> str:
    """A program that knows the task's traps and its dependence, and comes close to the ceiling; see [`load_task`] for its id."""
    return reference_program(_task(task_id).facts)


def plain_solution(task_id: str) -> str:
    """A program that boosts trees on the columns as they come, and knows of no trap; see [`load_task`] for its id."""
    return plain_program(_task(task_id).facts)


def score_range(task: Competition) -> ScoreRange:
    """The range of scores at a task that [`load_task`] has loaded, on all rows: for [`~trl_mle.competitions.Score`]'s `full`."""
    if not task.id.startswith(PREFIX):
        raise CompetitionError(f"{task.id!r} has no ceiling: only tasks such as 'task:train/0' have one")
    ceiling = task.grade(task.answers.parent / "ceiling.csv").full
    floor = task.scoring.undefined
    if floor is None:
        floor = task.grade(task.sample_submission).full
    assert floor is not None
    assert ceiling is not None
    return ScoreRange(floor, ceiling)


def make_task(task_id: str, prepared: Path) -> None:
    """Writes `public/` and `private/` of a task into a folder, the same bytes for the same id, see [`load_task`]."""
    task = _task(task_id)
    structure, domain = task.structure, DOMAINS[task.structure.domain]
    target, meaning = task.facts["target"], task.facts["meaning"]
    for path, table in {
        "public/train.csv": task.train,
        "public/test.csv": task.test,
        "public/sample_submission.csv": task.sample,
        "private/test.csv": task.answers,
        "private/ceiling.csv": task.ceiling,
    }.items():
        write_file(prepared / path, csv_text(table))
    what = f"Predict for each {domain.row} of test.csv {meaning}, the column `{target}` of train.csv."
    notes = "\n".join(f"- {note}" for note in task.notes)
    text = description(
        title=f"{domain.title} (synthetic)",
        overview=" ".join([domain.story, what, *task.hints]),
        evaluation=f"Submissions are scored by {EVALUATIONS[structure.metric]}; "
        f"{'higher' if METRICS[structure.metric].higher_is_better else 'lower'} is better.",
        submission=f"One row for each {domain.row} of `test.csv`, in any order, below this header:",
        sample=task.sample,
        data=f"- `train.csv`: {len(task.train)} {domain.rows} with their `{target}`.\n"
        f"- `test.csv`: {len(task.test)} {domain.rows} to predict.\n"
        f"- `sample_submission.csv`: a submission in the right format.\n\nThe data is synthetic.\n{notes}".rstrip(),
    )
    write_file(prepared / "public" / "description.md", text)


def _seeded(task_id: str) -> tuple[Structure, np.random.RandomState]:
    """The structure of a task, and what draws the rest."""
    understood = re.fullmatch(rf"{PREFIX}(train|test)/(0|[1-9][0-9]{{0,17}})", task_id)
    if understood is None:
        raise CompetitionError(
            f"there is no competition {task_id!r}; write task:train/<n> or task:test/<n> with a whole number of at most 18 digits, "
            "such as 'task:train/0'"
        )
    # RandomState because numpy promises that its stream never changes
    digest = hashlib.sha256(task_id.encode()).digest()
    random = np.random.RandomState(np.frombuffer(digest, ">u4").astype(np.uint32))
    while (structure := draw_structure(random)).side != understood[1]:
        pass
    return structure, random


@lru_cache(maxsize=8)
def _task(task_id: str) -> _Task:
    """A task with all that is known of it. Its columns are drawn first, then its signal, labels and split, then its traps."""
    structure, random = _seeded(task_id)
    domain, traps = DOMAINS[structure.domain], structure.traps
    rows = int(random.choice(SIZES))
    main, others = draw_numbers(domain, random)
    empty, coded, typed, shifted = main
    code = int(random.choice(CODES))

    # Standard normal and a little correlated, as measurements of one thing are
    latent = 0.85 * random.normal(size=(rows, len(main) + len(others))) + 0.53 * random.normal(size=(rows, 1))
    table = {number.column: measured(number, latent[:, column]) for column, number in enumerate([*main, *others])}
    seen = np.column_stack([latent_values(number, table[number.column]) for number in main])
    missing = random.random_sample((2, rows)) < 0.2
    if "missing" in traps:  # counts like an extreme value, so that it must be distinguished from the usual ones
        for column in (0, 1):
            seen[missing[column], column] = random.choice([-1.8, 1.8])
    levels, named = draw_names(structure, rows, random)
    table |= named
    days, phrases = random.randint(0, 730, rows), random.random_sample((rows, len(domain.text[1]))) < 0.16
    if structure.dependence == "calendar" or random.random_sample() < 0.25:
        table[domain.date] = pd.Series((np.datetime64("2023-01-01") + days).astype(str))
    if structure.dependence == "words" or random.random_sample() < 0.2:
        table[domain.text[0]] = draw_texts(phrases, domain.text[1], random)

    group = random.randint(0, len(domain.group[1]), rows)
    features = Features(seen, levels, days, phrases)
    target = draw_target(structure, features, group if "unseen" in traps else None, random)
    lean = (1.3 * latent[:, 3] if "shift" in traps else 0) + random.normal(size=rows)
    is_test = split(lean, target.classes)

    noise_share = float(random.uniform(0.15, 0.3))
    recorded = target.labels
    if "noise" in traps:
        recorded = trap.mistaken(structure, target, ~is_test, noise_share, random)
    outcome = trap.as_numbers(recorded, structure, random)
    if "leak" in traps:
        table[domain.leak] = trap.leak(outcome, is_test, random)
    if "number" in traps:
        table[domain.number] = trap.running_number(outcome, is_test, random)
    if "unseen" in traps:
        table[domain.group[0]] = trap.group_codes(domain, group, is_test, random)
    if "missing" in traps:
        table[empty.column] = table[empty.column].mask(missing[0])
        table[coded.column] = table[coded.column].mask(missing[1], code)
    category = next(name for name in domain.categories if name in table)
    if "units" in traps:
        table[typed.name] = trap.typed_in(table.pop(typed.column), typed.unit, random)
        table[category] = trap.carelessly(table[category], random)

    columns = list(table)
    features_table = pd.DataFrame(table)[[columns[i] for i in random.permutation(len(columns))]]
    train_rows = random.permutation(np.flatnonzero(~is_test))
    test_rows = random.permutation(np.flatnonzero(is_test))
    answers, ceiling = target.answers.iloc[test_rows], target.ceiling.iloc[test_rows].round(9)
    clean = target.answers.iloc[train_rows]
    if "duplicates" in traps:
        again = train_rows[: len(train_rows) // 16]
        train_rows = random.permutation(np.concatenate([train_rows, random.choice(again, 10 * len(again))]))
    ids = pd.Series(integer_ids(10_000, 1_000_000)(len(train_rows), len(test_rows), random), name="id")
    train_ids, test_ids = ids[: len(train_rows)], ids[len(train_rows) :].reset_index(drop=True)
    train = pd.concat([train_ids, _rows(features_table, train_rows), _rows(recorded.to_frame(), train_rows)], axis=1)
    form = structure.form
    column, meaning = getattr(domain, form)[:2]
    other, factor = OTHER_UNITS[typed.unit]
    facts = {
        "metric": structure.metric,
        "target": column,
        "meaning": meaning,
        "dependence": structure.dependence,
        "traps": traps,
        "rows": domain.rows,
        "leak": domain.leak,
        "number": domain.number,
        "empty": empty.column,
        "coded": coded.column,
        "code": code,
        "shifted": shifted.column,
        "group": domain.group[0],
        "typed": typed.name,
        "unit": typed.unit,
        "other": other,
        "factor": factor,
        "category": category,
        "date": domain.date if domain.date in table else None,
        "text": domain.text[0] if domain.text[0] in table else None,
        "noise_share": noise_share,
        "classes": 0 if target.classes is None else int(target.classes.max()) + 1,
        "is_amount": form == "amount",
    }
    test = pd.concat([test_ids, _rows(features_table, test_rows)], axis=1)
    in_test = f"; in test.csv it holds leftovers of other {domain.rows}"
    if "leak" in traps and random.random_sample() < 1 / 3:
        test = test.drop(columns=domain.leak)
        in_test = ", and test.csv lacks it"
    notes = [TRAPS[name].format(**facts, in_test=in_test) for name in traps]
    hints = [note for note in notes if random.random_sample() < 0.5]
    return _Task(
        structure,
        train,
        test,
        pd.concat([test_ids, answers.reset_index(drop=True)], axis=1),
        pd.concat([test_ids, ceiling.reset_index(drop=True)], axis=1),
        pd.concat([test_ids, guesses(clean, structure.metric, len(test_rows))], axis=1),
        hints,
        notes,
        facts,
    )


def _rows(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    return table.iloc[rows].reset_index(drop=True)
