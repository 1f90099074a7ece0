"""The tasks of a competition of the user's own: a table, as `trl-mle new` makes it."""

import json

import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.own import LABELS
from trl_mle.starter.tasks import NUMBERS, TEXT, Part, Task


MOST_VALUES = 50  # of a column of texts that becomes indicators
PROSE = 25  # mean number of characters from which texts are read word by word


def own_tasks(competition: Competition) -> tuple[Task, ...]:
    """
    Finds out what a program needs to know about a table.

    Args:
        competition ([`~trl_mle.competitions.Competition`]):
            A competition with `train.csv`, `test.csv` and `sample_submission.csv`.

    Returns:
        `tuple[Task, ...]`: Its task.

    Raises:
        [`~trl_mle.competitions.CompetitionError`]: It is not a table, or no column can be used.
    """
    try:
        train, test = (pd.read_csv(competition.public_dir / name) for name in ("train.csv", "test.csv"))
    except (OSError, ValueError) as error:
        raise CompetitionError(f"{competition.id} has no train.csv and test.csv that can be read: {error}") from error
    id_column = pd.read_csv(competition.sample_submission, nrows=0).columns[0]
    names = [str(name) for name in train]
    targets = [name for name in names if name not in test]
    features = {name: train[name] for name in names if name in test and name != id_column}
    numbers = [name for name, column in features.items() if is_numeric_dtype(column)]
    texts = {name: column.dropna().astype(str) for name, column in features.items() if name not in numbers}
    kinds = [name for name, column in texts.items() if column.nunique() <= MOST_VALUES]
    prose = [name for name, column in texts.items() if name not in kinds and column.str.len().mean() >= PROSE]
    if not targets or not numbers + kinds + prose:
        raise CompetitionError(
            f"{competition.id} is no table of numbers, labels or texts with a target: only train.csv may have it"
        )
    base: list[str] = []
    parts: tuple[Part, ...] = ()
    if numbers + kinds:
        chosen = f"both.drop(columns={_listed([name for name in names if name not in numbers + kinds])})"
        chosen = f"pd.get_dummies({chosen})" if kinds else chosen
        base = [f"table = {chosen}.astype(float).fillna({filler})" for filler in ("0", "-1")]
        parts = NUMBERS
    if prose:
        line = f'text = both[{_listed(prose)}].fillna("").agg(" ".join, axis=1)'
        base, parts = [f"{line}\n{other}" for other in base] or [line], parts + TEXT
    target = _quoted(targets[0])
    if competition.metric == "log_loss":
        return (Task("probabilities", target, parts, tuple(base), labels=f'train["{target}"].astype(str)'),)
    if len(targets) > 1:
        return (Task("numbers", target, parts, tuple(base), labels=f"train[{_listed(targets)}]"),)
    if "auc" in competition.metric:
        return (Task("probability", target, parts, tuple(base), column=target),)
    if competition.metric in LABELS:
        return (Task("class", target, parts, tuple(base), column=target),)
    has_logarithm = bool((train[targets[0]] >= 0).all())
    return (Task("number", target, parts, tuple(base), column=target, logs=has_logarithm),)


def _quoted(name: str) -> str:
    """A column's name, as a program writes it between double quotes."""
    return json.dumps(name, ensure_ascii=False)[1:-1]


def _listed(names: list[str]) -> str:
    return f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"
