"""The tasks of a competition of the user's own: a table, as `trl-mle new` makes it."""

from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.metrics import Takes
from trl_mle.prompts.features import listed, quoted
from trl_mle.starter.tasks import NUMBERS, TEXT, Part, Task


# Of tasks with one target that is a number; of all others, "class"
KINDS: dict[Takes, Literal["probability", "class", "number"]] = {Takes.SCORES: "probability", Takes.NUMBERS: "number"}
MOST_VALUES = 50  # of a column of texts that becomes indicators
PROSE = 25  # mean number of characters from which texts are read word by word


def own_tasks(competition: Competition) -> tuple[Task, ...]:
    """What a program needs to know about a table. Raises an error if it is none, or has no usable column."""
    try:
        train, test = (pd.read_csv(competition.public_dir / name) for name in ("train.csv", "test.csv"))
    except (OSError, ValueError) as error:
        raise CompetitionError(f"{competition.id} has no train.csv and test.csv that can be read: {error}") from error
    targets = _targets(competition, [str(name) for name in train if name not in test])
    names = [str(name) for name in train if name in test and name != competition.id_column]
    features = pd.concat([train, test])[names]
    numbers = [name for name in names if is_numeric_dtype(features[name]) and not np.isinf(features[name]).any()]
    texts = {name: features[name].dropna().astype(str) for name in names if not is_numeric_dtype(features[name])}
    kinds = [name for name, column in texts.items() if column.nunique() <= MOST_VALUES]
    prose = [name for name, column in texts.items() if name not in kinds and column.str.len().mean() >= PROSE]
    if not targets or not numbers + kinds + prose:
        raise CompetitionError(f"{competition.id} is no table with a target, which only train.csv may have")
    base: list[str] = []
    parts: tuple[Part, ...] = ()
    if numbers + kinds:
        chosen = f"both.drop(columns=[{listed([str(name) for name in train if name not in numbers + kinds])}])"
        chosen = f"pd.get_dummies({chosen})" if kinds else chosen
        base = [f"table = {chosen}.astype(float).fillna({filler})" for filler in ("0", "-1")]
        parts = tuple(part for part in NUMBERS if kinds or len(numbers) > 1 or "std" not in part.code)
    if prose:
        line = f'text = both[[{listed(prose)}]].fillna("-").agg(" ".join, axis=1)'
        base, parts = [f"{line}\n{other}" for other in base] or [line], parts + TEXT
    target = quoted(targets[0])[1:-1]  # as a program writes it between double quotes
    task = partial(Task, target=target, parts=parts, base=tuple(base))
    takes = competition.scoring.takes
    if takes is Takes.PROBABILITIES:
        return (task("probabilities", labels=_labels(competition, targets[0], target)),)
    if len(targets) > 1:
        return (task("numbers", labels=f"train[[{listed(targets)}]]"),)
    is_number = is_numeric_dtype(train[targets[0]])
    kind = KINDS.get(takes, "class") if is_number else "class"
    return (task(kind, column=target, logs=kind == "number" and bool((train[targets[0]] >= 0).all())),)


def _targets(competition: Competition, hidden: list[str]) -> list[str]:
    """The columns to predict, of those that only train has."""
    if competition.scoring.takes is Takes.PROBABILITIES:  # a submission has a column for each label
        prefixes = [name for name in hidden if all(col.startswith(f"{name}_") for col in competition.target_columns)]
        return prefixes[:1]
    return list(competition.target_columns) if set(competition.target_columns) <= set(hidden) else []


def _labels(competition: Competition, name: str, quoted: str) -> str:
    """The labels, as an expression whose sorted values have the order of the sample submission's columns."""
    texts = pd.read_csv(competition.public_dir / "train.csv", usecols=[name], dtype=str)[name]
    in_text_order = tuple(f"{name}_{label}" for label in sorted(texts.unique())) == competition.target_columns
    return f'pd.read_csv("input/train.csv", dtype=str)["{quoted}"]' if in_text_order else f'train["{quoted}"]'
