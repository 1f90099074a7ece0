"""
Families of synthetic tasks: `task:train/<n>` and `task:test/<n>` for any whole number n, each with traps, a reference
solution, a plain one, and the best score that can be expected of anybody.

A task's *structure* is its domain, how the target depends on the features, its traps and its metric. A hash of the
structure decides whether it belongs to training or to testing: no task of one side has the structure of one of the other.
A task is made from its id alone, and so are its labels: only a sandbox, which hides this package, keeps them from programs.
Its bytes are the same wherever numpy's exponentials and logarithms are the same.
"""

import hashlib
import re
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from trl_mle.competitions.catalog import Layout, competition_from_folder
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.families_solutions import Facts, plain_program, reference_program
from trl_mle.competitions.families_words import DOMAINS, OTHER_UNITS, Domain, Number
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.mirror import exact_shares, integer_ids
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file


PREFIX = "task:"
# One structure in so many is for testing
TEST_SHARE = 4
LEAST_ROWS = 5  # of each class, in train.csv as well as in test.csv
SIZES = (900, 1200, 1500)  # rows of train.csv and test.csv together, of which a third is the latter
CODES = (-999, -99, -1000)
WHOLE = ("", "days", "nights", "months", "years")  # units of whole numbers

FORMS = {
    "roc_auc": "yes_or_no",
    "log_loss": "kind",
    "accuracy": "kind",
    "quadratic_weighted_kappa": "grade",
    "rmse": "value",
    "mean_columnwise_rmsle": "amount",
    "pearson_correlation": "value",
}
EVALUATIONS = {
    "roc_auc": "the area under the ROC curve",
    "log_loss": "the multi-class logarithmic loss of the probabilities of all labels",
    "accuracy": "accuracy, the share of labels that are right",
    "quadratic_weighted_kappa": "the quadratic weighted kappa of the predicted and the true grades, whole numbers from 1 to 5",
    "rmse": "the root mean squared error",
    "mean_columnwise_rmsle": "the root mean squared error of log(1 + x)",
    "pearson_correlation": "Pearson's correlation of the predicted and the true values",
}
DEPENDENCES = ("linear", "thresholds", "interactions", "calendar", "words")
# By trap: what the description says of it
TRAPS = {
    "leak": "`{leak}` is filled in only when the outcome is known{in_test}.",
    "number": "`{number}` counts the {rows} as they were filed: in train.csv by their outcome.",
    "missing": "An empty `{empty}` has a meaning of its own, and `{coded}` is {code} where nobody took it.",
    "shift": "The {rows} of test.csv have a larger `{shifted}`, on average.",
    "duplicates": "Some {rows} were entered into train.csv many times.",
    "unseen": "`{group}` begins with a region, and test.csv has codes that train.csv lacks.",
    "imbalance": "One outcome is far more frequent than the others.",
    "noise": "Some outcomes in train.csv are wrong; those of test.csv were checked.",
    "units": "`{typed}` and `{category}` were typed in by hand, the former in {unit} or in {other}.",
    "tail": "A few {rows} have by far the largest outcomes.",
}
CLASSIFICATION = ("roc_auc", "log_loss", "accuracy", "quadratic_weighted_kappa")
# Traps that do not go with every metric
ONLY_WITH = {"imbalance": CLASSIFICATION, "tail": ("mean_columnwise_rmsle", "pearson_correlation")}


class Structure(NamedTuple):
    """
    What a task is, apart from its numbers.

    Args:
        domain (`str`):
            A key of `DOMAINS`.
        dependence (`str`):
            How the target depends on the features, one of `DEPENDENCES`.
        traps (`tuple[str, ...]`):
            Keys of `TRAPS`, in their order there; at most three.
        metric (`str`):
            A key of `METRICS`.
    """

    domain: str
    dependence: str
    traps: tuple[str, ...]
    metric: str

    @property
    def side(self) -> str:
        """`"train"` or `"test"`, whichever this structure belongs to."""
        text = "|".join((self.domain, self.dependence, *self.traps, self.metric))
        return "train" if hashlib.sha256(text.encode()).digest()[0] % TEST_SHARE else "test"


class ScoreRange(NamedTuple):
    """
    What can be scored at a task.

    Args:
        floor (`float`):
            The score of a constant, the best that the training labels suggest; of no correlation, where that is the metric.
        ceiling (`float`):
            The score of one who knows how the task is made, but not the noise in its labels. A program exceeds it by luck only.
    """

    floor: float
    ceiling: float

    def normalised(self, score: float) -> float:
        """The score, so that the floor is 0 and the ceiling 1; it may lie outside."""
        return (score - self.floor) / (self.ceiling - self.floor)


class _Features(NamedTuple):
    """What the target depends on, a row for each: main numbers, standardised; codes of names; days; phrases."""

    numbers: np.ndarray
    levels: list[np.ndarray]
    days: np.ndarray
    phrases: np.ndarray


class _Target(NamedTuple):
    """Labels as train.csv has them, answers and best predictions as submissions have them, and classes, if there are any."""

    labels: pd.Series
    answers: pd.DataFrame
    ceiling: pd.DataFrame
    classes: np.ndarray | None


class _Task(NamedTuple):
    structure: Structure
    train: pd.DataFrame
    test: pd.DataFrame
    answers: pd.DataFrame
    ceiling: pd.DataFrame
    sample: pd.DataFrame
    hints: list[str]
    notes: list[str]
    facts: Facts


def load_task(task_id: str) -> Competition:
    """
    Load a task of a family; its files are written on first use.

    Args:
        task_id (`str`):
            `task:train/<n>` or `task:test/<n>`, with a whole number n.

    Returns:
        [`Competition`]: The task.

    Raises:
        [`CompetitionError`]: If the id is not understood, or the cache cannot be written.
    """
    structure, _ = _seeded(task_id)
    prepared = cached_folder(task_id, path_slug(task_id), partial(make_task, task_id))
    return competition_from_folder(task_id, Layout(metric=structure.metric, id_column="id"), prepared)


def structure_of(task_id: str) -> Structure:
    """
    The structure of a task; see [`load_task`] for its id.

    Raises:
        [`CompetitionError`]: If the id is not understood.
    """
    return _seeded(task_id)[0]


def reference_solution(task_id: str) -> str:
    """
    A program that knows the task's traps and its dependence, and comes close to the ceiling; see [`load_task`] for its id.

    Raises:
        [`CompetitionError`]: If the id is not understood.
    """
    return reference_program(_task(task_id).facts)


def plain_solution(task_id: str) -> str:
    """
    A program that boosts trees on the columns as they come, and knows of no trap; see [`load_task`] for its id.

    Raises:
        [`CompetitionError`]: If the id is not understood.
    """
    return plain_program(_task(task_id).facts)


def score_range(task: Competition) -> ScoreRange:
    """
    The range of scores at a task that [`load_task`] has loaded, on all rows: for [`~trl_mle.competitions.Score`]'s `full`.

    Raises:
        [`CompetitionError`]: If it is not such a task.
    """
    if not task.id.startswith(PREFIX):
        raise CompetitionError(f"{task.id!r} has no ceiling: only tasks such as 'task:train/0' have one")
    ceiling = task.grade(task.answers.parent / "ceiling.csv").full
    floor = 0.0 if task.metric == "pearson_correlation" else task.grade(task.sample_submission).full
    assert floor is not None
    assert ceiling is not None
    return ScoreRange(floor, ceiling)


def make_task(task_id: str, prepared: Path) -> None:
    """
    Write a task, the same bytes for the same id.

    Args:
        task_id (`str`):
            As for [`load_task`].
        prepared (`Path`):
            Folder in which `public/` and `private/` are written.

    Raises:
        [`CompetitionError`]: If the id is not understood.
    """
    task = _task(task_id)
    structure, domain = task.structure, DOMAINS[task.structure.domain]
    target, meaning = task.facts.target, task.facts.meaning
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
    while (structure := _draw_structure(random)).side != understood[1]:
        pass
    return structure, random


def _draw_structure(random: np.random.RandomState) -> Structure:
    metric = str(random.choice(list(FORMS)))
    fitting = [trap for trap in TRAPS if metric in ONLY_WITH.get(trap, FORMS)]
    count = random.choice(4, p=[0.1, 0.35, 0.35, 0.2])
    traps = random.choice(len(fitting), count, replace=False)
    return Structure(
        str(random.choice(list(DOMAINS))),
        str(random.choice(DEPENDENCES)),
        tuple(fitting[i] for i in sorted(traps)),
        metric,
    )


@lru_cache(maxsize=8)
def _task(task_id: str) -> _Task:
    """A task with all that is known of it. Its columns are drawn first, then its signal, labels and split, then its traps."""
    structure, random = _seeded(task_id)
    domain, traps = DOMAINS[structure.domain], structure.traps
    rows = int(random.choice(SIZES))
    main, others = _numbers(domain, random)
    empty, coded, typed, shifted = main
    code = int(random.choice(CODES))

    # Standard normal and a little correlated, as measurements of one thing are
    latent = 0.85 * random.normal(size=(rows, len(main) + len(others))) + 0.53 * random.normal(size=(rows, 1))
    table = {number.column: _measured(number, latent[:, column]) for column, number in enumerate([*main, *others])}
    seen = np.column_stack([_latent(number, table[number.column]) for number in main])
    missing = random.random_sample((2, rows)) < 0.2
    if "missing" in traps:  # counts like an extreme value, so that it must be distinguished from the usual ones
        for column in (0, 1):
            seen[missing[column], column] = random.choice([-1.8, 1.8])
    levels, named = _names(structure, rows, random)
    table |= named
    days, phrases = random.randint(0, 730, rows), random.random_sample((rows, len(domain.text[1]))) < 0.16
    if structure.dependence == "calendar" or random.random_sample() < 0.25:
        table[domain.date] = pd.Series((np.datetime64("2023-01-01") + days).astype(str))
    if structure.dependence == "words" or random.random_sample() < 0.2:
        table[domain.text[0]] = _texts(phrases, domain.text[1], random)

    group = random.randint(0, len(domain.group[1]), rows)
    features = _Features(seen, levels, days, phrases)
    target = _draw_target(structure, features, group if "unseen" in traps else None, random)
    lean = (1.3 * latent[:, 3] if "shift" in traps else 0) + random.normal(size=rows)
    is_test = _split(lean, target.classes)

    noise_share = float(random.uniform(0.15, 0.3))
    recorded = target.labels
    if "noise" in traps:
        recorded = _mistaken(structure, target, ~is_test, noise_share, random)
    outcome = _as_numbers(recorded, structure, random)
    if "leak" in traps:
        table[domain.leak] = _leak(outcome, is_test, random)
    if "number" in traps:
        table[domain.number] = _running_number(outcome, is_test, random)
    if "unseen" in traps:
        table[domain.group[0]] = _group_codes(domain, group, is_test, random)
    if "missing" in traps:
        table[empty.column] = table[empty.column].mask(missing[0])
        table[coded.column] = table[coded.column].mask(missing[1], code)
    category = next(name for name in domain.categories if name in table)
    if "units" in traps:
        table[typed.name] = _typed_in(table.pop(typed.column), typed.unit, random)
        table[category] = _carelessly(table[category], random)

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
    form = _form(structure)
    column, meaning = getattr(domain, form)[:2]
    other, factor = OTHER_UNITS[typed.unit]
    facts = Facts(
        metric=structure.metric,
        target=column,
        meaning=meaning,
        dependence=structure.dependence,
        traps=traps,
        leak=domain.leak,
        number=domain.number,
        coded=coded.column,
        code=code,
        group=domain.group[0],
        typed=typed.name,
        unit=typed.unit,
        other=other,
        factor=factor,
        category=category,
        date=domain.date if domain.date in table else None,
        text=domain.text[0] if domain.text[0] in table else None,
        noise_share=noise_share,
        classes=0 if target.classes is None else int(target.classes.max()) + 1,
        is_amount=form == "amount",
    )
    test = pd.concat([test_ids, _rows(features_table, test_rows)], axis=1)
    in_test = f"; in test.csv it holds leftovers of other {domain.rows}"
    if "leak" in traps and random.random_sample() < 1 / 3:
        test = test.drop(columns=domain.leak)
        in_test = ", and test.csv lacks it"
    words = facts._asdict() | {
        "rows": domain.rows,
        "empty": empty.column,
        "shifted": shifted.column,
        "in_test": in_test,
    }
    notes = [TRAPS[trap].format(**words) for trap in traps]
    hints = [note for note in notes if random.random_sample() < 0.5]
    guesses = _guesses(clean, structure.metric, len(test_rows))
    return _Task(
        structure,
        train,
        test,
        pd.concat([test_ids, answers.reset_index(drop=True)], axis=1),
        pd.concat([test_ids, ceiling.reset_index(drop=True)], axis=1),
        pd.concat([test_ids, guesses], axis=1),
        hints,
        notes,
        facts,
    )


def _form(structure: Structure) -> str:
    return "amount" if "tail" in structure.traps else FORMS[structure.metric]


def _rows(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    return table.iloc[rows].reset_index(drop=True)


def _numbers(domain: Domain, random: np.random.RandomState) -> tuple[list[Number], list[Number]]:
    """Four columns that may matter, of which the third has another unit, and one to three that do not."""
    numbers = [domain.numbers[i] for i in random.permutation(len(domain.numbers))]
    typed = next(number for number in numbers if number.unit in OTHER_UNITS)
    rest = sorted((number for number in numbers if number is not typed), key=lambda number: not number.unit)
    main = [rest[0], rest[1], typed, rest[2]]
    others = rest[3:]
    return main, [others[i] for i in sorted(random.choice(len(others), random.randint(1, 4), replace=False))]


def _measured(number: Number, latent: np.ndarray) -> pd.Series:
    """A column of measurements, from standard normal values."""
    whole = number.unit in WHOLE
    if number.skewed:
        values, spread = number.centre * np.exp(number.spread * latent), number.centre * number.spread
    else:
        values, spread = number.centre + number.spread * latent, number.spread
    decimals = 0 if whole else max(0, 2 - int(np.floor(np.log10(spread))))
    if number.unit != "c":
        values = values.clip(10.0**-decimals, 100 if number.unit == "pct" else None)
    column = pd.Series(values.round(decimals))
    return column if decimals else column.astype(int)


def _latent(number: Number, column: pd.Series) -> np.ndarray:
    """What [`_measured`] has made the column of, but for what was lost in rounding: nothing depends on that."""
    values = column.to_numpy(float)
    return (np.log(values / number.centre) if number.skewed else values - number.centre) / number.spread


def _names(
    structure: Structure, rows: int, random: np.random.RandomState
) -> tuple[list[np.ndarray], dict[str, pd.Series]]:
    """Two or three columns of names: their codes, and themselves."""
    domain = DOMAINS[structure.domain]
    count = random.randint(1, 3)
    chosen = [list(domain.categories)[i] for i in sorted(random.choice(len(domain.categories), count, replace=False))]
    columns = {name: domain.categories[name] for name in chosen} | dict([domain.ordered])
    codes = [exact_shares(list(random.uniform(0.5, 1.5, len(names))), rows, random) for names in columns.values()]
    tables = {
        column: pd.Series(np.array(names, dtype=object)[code])
        for (column, names), code in zip(columns.items(), codes, strict=True)
    }
    return codes, tables


def _texts(phrases: np.ndarray, words: tuple[str, ...], random: np.random.RandomState) -> pd.Series:
    """Notes that hold the phrases of their rows, in any order."""
    order = random.random_sample(phrases.shape).argsort(axis=1)
    joints = np.array([", ", "; ", " - ", ". "])[random.randint(0, 4, len(phrases))]
    texts = [
        str(joint).join(words[i] for i in places if has[i])
        for has, places, joint in zip(phrases, order, joints, strict=True)
    ]
    return pd.Series([text[:1].upper() + text[1:] if text else "none" for text in texts])


# Signals: what the target depends on, before it is scaled and noise is added


def _linear(features: _Features, random: np.random.RandomState) -> np.ndarray:
    weights = random.uniform(0.5, 1.3, 4) * random.choice([-1, 1], 4)
    signal = (features.numbers * weights).sum(axis=1)
    for codes in features.levels:
        signal += random.normal(0, 0.6, codes.max() + 1)[codes]
    return signal


def _thresholds(features: _Features, random: np.random.RandomState) -> np.ndarray:
    """Seven trees of four leaves each."""
    signal = np.zeros(len(features.days))
    for _ in range(7):
        above = features.numbers[:, random.randint(0, 4, 3)] > random.uniform(-0.9, 0.9, 3)
        signal += random.normal(size=4)[2 * above[:, 0] + np.where(above[:, 0], above[:, 1], above[:, 2])]
    for codes in features.levels:
        signal += random.normal(0, 0.6, codes.max() + 1)[codes]
    return signal


def _interactions(features: _Features, random: np.random.RandomState) -> np.ndarray:
    """Products of two numbers, and a slope that depends on a name."""
    a, b, c, d = random.permutation(4)
    numbers, codes = features.numbers, features.levels[0]
    signs = random.choice([-1, 1], 2)
    slopes = random.permutation(np.linspace(-1.2, 1.2, codes.max() + 1))
    signal = signs[0] * numbers[:, a] * numbers[:, b] + 0.8 * signs[1] * numbers[:, c] * numbers[:, a]
    return signal + slopes[codes] * numbers[:, d]


def _calendar(features: _Features, random: np.random.RandomState) -> np.ndarray:
    """Days of the week and seasons, and half as much that is linear."""
    weekdays = random.permutation(np.linspace(-1.4, 1.4, 7))[(features.days + 6) % 7]
    season = 1.3 * np.cos(2 * np.pi * (features.days - random.randint(365)) / 365.25)
    return weekdays + season + 0.45 * _linear(features, random)


def _words(features: _Features, random: np.random.RandomState) -> np.ndarray:
    """Phrases, and half as much that is linear."""
    count = features.phrases.shape[1]
    weights = random.permutation(np.where(np.arange(count) < 5, 0, random.uniform(1.2, 2.6, count)))
    weights = weights * random.choice([-1, 1], count)
    return (features.phrases * weights).sum(axis=1) + 0.7 * _linear(features, random)


SIGNALS = dict(zip(DEPENDENCES, (_linear, _thresholds, _interactions, _calendar, _words), strict=True))


def _signal(
    structure: Structure, features: _Features, group: np.ndarray | None, random: np.random.RandomState
) -> np.ndarray:
    signal = _standardised(SIGNALS[structure.dependence](features, random))
    if group is not None:
        signal = signal + random.permutation(np.linspace(-1.3, 1.3, group.max() + 1))[group]
    return _standardised(signal)


def _standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


def _draw_target(
    structure: Structure, features: _Features, group: np.ndarray | None, random: np.random.RandomState
) -> _Target:
    domain, form = DOMAINS[structure.domain], _form(structure)
    column = getattr(domain, form)[0]
    if form in ("value", "amount"):
        return _measured_target(structure, column, _signal(structure, features, group, random), random)
    labels = domain.kind[2] if form == "kind" else tuple(range(5 if form == "grade" else 2))
    shares = random.uniform(0.7, 1.3, len(labels))
    if "imbalance" in structure.traps:
        shares[random.randint(len(labels)) if form == "kind" else 0] *= 10 if len(labels) == 2 else 6
    shares /= shares.sum()
    rows = len(features.days)
    if form == "grade":
        signal, noise = _signal(structure, features, group, random), random.choice([0.3, 0.5, 0.8])
        felt = signal + noise * random.normal(size=rows)
        ends = np.quantile(felt, shares.cumsum()[:-1])
        classes = (felt[:, None] > ends).sum(axis=1)
        below = ndtr((ends - signal[:, None]) / noise)
        chances = np.diff(below, axis=1, prepend=0, append=1)
    else:
        logits = np.zeros((rows, len(labels)))
        scale = random.choice([1.8, 2.6, 3.8])
        for label in range(1 if form == "yes_or_no" else 0, len(labels)):
            logits[:, label] = scale * _signal(structure, features, group, random)
        chances = _calibrated(logits, shares)
        classes = (chances.cumsum(axis=1)[:, :-1] < random.random_sample((rows, 1))).sum(axis=1)
    classes = _enough(classes, chances)
    if form == "yes_or_no":
        answers = pd.DataFrame({column: classes})
        return _Target(answers[column], answers, pd.DataFrame({column: chances[:, 1]}), classes)
    if form == "grade":
        answers = pd.DataFrame({column: classes + 1})
        return _Target(answers[column], answers, pd.DataFrame({column: best_by_kappa(chances) + 1}), classes)
    names = np.array(labels, dtype=object)
    recorded = pd.Series(names[classes], name=column)
    if structure.metric == "accuracy":
        best = pd.DataFrame({column: names[chances.argmax(axis=1)]})
        return _Target(recorded, recorded.to_frame(), best, classes)
    one_hot = pd.DataFrame(np.eye(len(labels), dtype=int)[classes], columns=list(labels))
    return _Target(recorded, one_hot, pd.DataFrame(chances, columns=list(labels)), classes)


def _measured_target(structure: Structure, column: str, signal: np.ndarray, random: np.random.RandomState) -> _Target:
    noise = random.choice([0.3, 0.5, 0.8])
    noisy = signal + noise * random.normal(size=len(signal))
    if _form(structure) == "value":
        centre = random.uniform(-1, 2)
        answers, best = (centre + noisy).round(3), centre + signal
    else:
        width, middle = (0.9 if "tail" in structure.traps else 0.4), random.uniform(4, 5)
        answers = np.expm1(middle + width * noisy).clip(0.01).round(2)
        # By the mean of the logarithm. The mean itself is that times a factor, which no correlation minds
        best = np.expm1(middle + width * signal).clip(0)
    table = pd.DataFrame({column: answers})
    return _Target(table[column], table, pd.DataFrame({column: best}), None)


def _calibrated(logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, which are made to have these shares on average."""
    offsets = np.log(shares)
    for _ in range(40):
        odds = np.exp(logits + offsets - (logits + offsets).max(axis=1, keepdims=True))
        chances = odds / odds.sum(axis=1, keepdims=True)
        offsets = offsets + np.log(shares / chances.mean(axis=0))
    return chances


def _enough(classes: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The classes, where each has rows enough for both parts: if not, those that are likeliest to be of it are."""
    classes = classes.copy()
    for label in range(chances.shape[1]):
        counts = np.bincount(classes, minlength=chances.shape[1])
        free = np.flatnonzero(counts[classes] > 4 * LEAST_ROWS)
        lacking = max(0, 2 * LEAST_ROWS - counts[label])
        classes[free[chances[free, label].argsort(kind="stable")[::-1][:lacking]]] = label
    return classes


def best_by_kappa(chances: np.ndarray) -> np.ndarray:
    """
    The classes with the largest quadratic weighted kappa, 1 - E[(a - b)²] / E[(a - b')²], to be expected of labels that have
    these chances, shape (rows, classes): of each row the class b that minimises its part of E[(a - b)²] - r E[(a - b')²],
    where r is the quotient itself (Dinkelbach's method).
    """
    squares = (np.arange(chances.shape[1])[:, None] - np.arange(chances.shape[1])) ** 2.0
    own = (chances[:, :, None] * squares).sum(axis=1)
    other = (chances.mean(axis=0)[:, None] * squares).sum(axis=0)
    ratio = 0.0
    for _ in range(20):
        best = (own - ratio * other).argmin(axis=1)
        ratio = own[np.arange(len(best)), best].mean() / max(other[best].mean(), 1e-9)
    return best


def _split(lean: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Which rows are in test.csv: the third with the largest values, but both parts have some rows of each class."""
    in_test = lean.argsort(kind="stable").argsort() >= len(lean) * 2 // 3
    for label in range(0 if classes is None else int(classes.max()) + 1):
        rows = np.flatnonzero(classes == label)
        for part in (True, False):
            there = in_test[rows] == part
            in_test[rows[~there][: max(0, LEAST_ROWS - there.sum())]] = part
    return in_test


# Traps


def _mistaken(
    structure: Structure, target: _Target, where: np.ndarray, share: float, random: np.random.RandomState
) -> pd.Series:
    """Labels of which a share is wrong: a label drawn at random, or a number that lies far off."""
    labels, classes = target.labels, target.classes
    if classes is None:
        wrong = where & (random.random_sample(len(labels)) < share / 3)
        if _form(structure) == "amount":
            return labels.mask(wrong, (labels * random.choice([1 / 30, 30], len(labels))).clip(0.01).round(2))
        return labels.mask(wrong, (labels + random.choice([-8, 8], len(labels))).round(3))
    wrong = where & (random.random_sample(len(labels)) < share)
    for label in range(int(classes.max()) + 1):  # of each class some remain
        wrong[np.flatnonzero(where & (classes == label))[:LEAST_ROWS]] = False
    kinds = pd.Series([labels[classes == label].iloc[0] for label in range(int(classes.max()) + 1)])
    drawn = kinds.iloc[random.randint(0, len(kinds), len(labels))].reset_index(drop=True)
    return labels.mask(wrong, drawn)


def _as_numbers(labels: pd.Series, structure: Structure, random: np.random.RandomState) -> np.ndarray:
    """The recorded labels as standardised numbers; those of kinds in any order."""
    if structure.metric in ("log_loss", "accuracy"):
        codes, kinds = pd.factorize(labels, sort=True)
        return _standardised(random.permutation(len(kinds))[codes].astype(float))
    numbers = labels.to_numpy(float)
    return _standardised(np.log(numbers) if _form(structure) == "amount" else numbers)


def _leak(outcome: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Reveals the outcome; in the test rows, that of another row."""
    leaked = outcome + 0.1 * random.normal(size=len(outcome))
    leaked[in_test] = random.permutation(leaked[in_test])
    return pd.Series((40 + 12 * leaked).round(1))


def _running_number(outcome: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Rises with the outcome, but not in the test rows."""
    numbers = np.empty(len(outcome), int)
    filed = outcome[~in_test] + 0.5 * random.normal(size=(~in_test).sum())
    numbers[~in_test] = filed.argsort(kind="stable").argsort()
    numbers[in_test] = random.permutation((~in_test).sum())[: in_test.sum()]
    return pd.Series(1000 + numbers)


def _group_codes(domain: Domain, group: np.ndarray, in_test: np.ndarray, random: np.random.RandomState) -> pd.Series:
    """Codes of which the prefix matters; a third of those in the test rows are not in the others."""
    number = np.where(in_test, random.randint(0, 24, len(group)), random.randint(0, 16, len(group)))
    places = np.array([10 + random.permutation(90)[:24] for _ in domain.group[1]])[group, number]
    return pd.Series([f"{domain.group[1][i]}-{place}" for i, place in zip(group, places, strict=True)])


def _typed_in(values: pd.Series, unit: str, random: np.random.RandomState) -> pd.Series:
    """Measurements with their units, of which there are two, as different people write them."""
    other, factor = OTHER_UNITS[unit]
    style = random.random_sample((3, len(values)))
    texts = []
    for value, a, b, c in zip(values, *style, strict=True):
        number, name = (f"{value * factor:.10g}", other) if a < 0.35 else (f"{value:.10g}", unit)
        texts.append((number.replace(".", ",") if b < 0.25 else number) + ("" if c < 0.3 else " ") + name)
    return pd.Series(texts)


def _carelessly(names: pd.Series, random: np.random.RandomState) -> pd.Series:
    """Names in small letters and in capitals, some with a blank behind them."""
    style = random.randint(0, 5, len(names))
    return names.mask(style == 1, names.str.upper()).mask(style == 2, names.str.title()).mask(style == 3, names + " ")


def _guesses(answers: pd.DataFrame, metric: str, rows: int) -> pd.DataFrame:
    """What a constant can do at best, by the answers of the training rows; in turn two numbers, if it may not be constant."""
    columns = {}
    for name, labels in answers.items():
        if metric == "pearson_correlation":
            columns[name] = np.resize(labels.quantile([0.25, 0.75]).to_numpy(), rows).round(3)
        elif metric in ("accuracy", "quadratic_weighted_kappa"):
            columns[name] = np.repeat(labels.mode()[0], rows)
        elif metric == "mean_columnwise_rmsle":
            columns[name] = np.full(rows, np.expm1(np.log1p(labels).mean()).round(3))
        else:
            columns[name] = np.full(rows, labels.mean())
    return pd.DataFrame(columns)
