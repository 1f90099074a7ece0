"""The first lines of a program, with which an answer begins: they read the tables."""

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import Takes
from trl_mle.prompts.features import MOST_NAMES, features, find_tables, listed, quoted
from trl_mle.prompts.ideas import Idea


# Keeps a model that can think, such as Qwen3, from it: an argument of its chat template
NO_THOUGHTS = {"enable_thinking": False}


def opening(comp: Competition, idea: Idea | None = None, without: Collection[str] = ()) -> str:
    """
    Builds the beginning of an answer: a fence, and the first lines of a program. They read the tables, name features
    and targets, and end in the beginning of an import, or in the idea's. A small model continues such a program, but
    if asked for one, it writes an essay. Without tables, there is only a fence and `import`.
    `without` names what is left out: `"dates"`, the `"means"` of texts that repeat.
    """
    found = find_tables(comp)
    if found is None:
        return "```python\nimport"
    (train_path, train), (test_path, test) = found
    lines = ["```python", "import numpy as np", "import pandas as pd", ""]
    for name, path in (("train", train_path), ("test", test_path)):
        lines.append(f"{name} = pd.read_{path.suffix[1:]}({quoted(f'input/{path.name}')}{_options(path)})")
    if comp.id_column in test.columns:
        lines.append(f"submission = test[[{quoted(comp.id_column)}]].copy()")
    made, reads = features(comp, train, test, without)
    are_classes = _are_classes(comp, train)
    known = [name for name in comp.target_columns if name in train.columns]
    lacking = [str(name) for name in train.columns if name not in test.columns]
    learnt = known or (lacking if len(lacking) == 1 else [])
    lines += [*made, *_labels(comp, learnt, are_classes)]
    if idea is not None and idea.code and made:
        lines += ["", *idea.code.splitlines()]
    has_labels = len(learnt) > 1 and not are_classes and comp.scoring.takes is Takes.SCORES
    is_each = has_labels and idea is not None and bool(idea.imports)
    if idea is not None and is_each:  # classifiers predict several columns in forms of their own
        idea = idea.within("multiclass", "OneVsRestClassifier")
    # With these names and words, fewer models split the rows or read the tables once more
    fit, rows = ("X_train and y_train", "X_test") if made else ("train", "test")
    # Small models fail more often if they are asked for the probabilities of a single class
    columns, what = quoted(comp.target_columns[0]), "predictions"
    if len(comp.target_columns) > 1:
        are_shares = are_classes or is_each or "[0, 1]" in comp.rule
        columns, what = "targets", "probabilities" if are_shares else "predictions"
    goal = f'set submission[{columns}] to its {what} for {rows}, and write submission to "submission.csv"'
    # Code keeps small models from giving labels
    if what == "probabilities" and (are_classes or is_each or len(learnt) == 1):
        write = 'submission.to_csv("submission.csv", index=False)'
        goal = f"then submission[targets] = model.predict_proba({rows}), and {write}"
    model = "a model" if idea is None else idea.fit
    lines += ["", f"# Fit {model} to {fit}, {goal}"]
    if idea is not None and idea.imports:
        lines.append(idea.imports)
    else:
        lines.append("from sklearn.feature_extraction.text import" if reads == "texts" else "from sklearn")
    return "\n".join(lines)


def opening_of(prompt: object) -> str:
    """The beginning of the answer to a prompt: the content of the last message, if it is the assistant's."""
    if isinstance(prompt, list) and prompt and prompt[-1]["role"] == "assistant":
        return str(prompt[-1]["content"])
    return ""


known_opening = lru_cache(maxsize=1024)(opening)  # prompts ask for the same ones repeatedly: tables are read once


def without_opening(prompt: list) -> list:
    """The messages before the answer's beginning."""
    return prompt[:-1] if opening_of(prompt) else prompt


def after_thoughts(opening: str, asked: str) -> str:
    """The answer's beginning, after a rendered prompt: a thought that its template opened is closed first."""
    return f"\n</think>\n\n{opening}" if opening and asked.rstrip().endswith("<think>") else opening


def _labels(comp: Competition, learnt: list[str], are_classes: bool) -> list[str]:
    """Defines `y_train`, if it is known what to learn, and several `targets`. Where these say which class a row has,
    `y_train` is its number: most classifiers take nothing else."""
    targets = list(comp.target_columns)
    lines = []
    if len(learnt) == 1:
        lines.append(f"y_train = train[{quoted(learnt[0])}]")
    elif learnt and len(learnt) <= MOST_NAMES and not are_classes:
        lines.append(f"y_train = train[[{listed(learnt)}]]")
    if len(targets) > MOST_NAMES:
        stem = re.sub(r"\d+$", "", targets[0])
        if "{" not in stem and targets == [f"{stem}{number}" for number in range(len(targets))]:
            lines.append(f"targets = [f{quoted(stem + '{i}')} for i in range({len(targets)})]")
        elif comp.sample_submission.parent == comp.public_dir:
            columns = list(pd.read_csv(comp.sample_submission, nrows=0).columns)
            sample = f"pd.read_csv({quoted(f'input/{comp.sample_submission.name}')}).columns"
            others = [name for name in columns if name not in targets]
            is_first = columns == [*others, *targets]
            chosen = f"[{len(others)}:]" if is_first else f".drop([{listed(others)}])"
            lines.append(f"targets = {sample}{chosen}")
    elif len(targets) > 1:
        lines.append(f"targets = [{listed(targets)}]")
    if are_classes:
        lines.append("y_train = train[targets].to_numpy().argmax(axis=1)  # the number of the target that is 1")
    elif lines and learnt == targets and len(targets) > MOST_NAMES:
        lines.append("y_train = train[targets]")
    return lines


def _are_classes(comp: Competition, train: pd.DataFrame) -> bool:
    """Whether one of the targets is 1 in each row, and the others are 0."""
    if len(comp.target_columns) < 2 or not set(comp.target_columns) <= set(train.columns):
        return False
    values = train[list(comp.target_columns)]
    return bool(values.isin([0, 1]).all(axis=None) and (values.sum(axis=1) == 1).all())


def _options(path: Path) -> str:
    """Options with which pandas reads a table: JSON lines begin with an object, other JSON with a list."""
    if path.suffix != ".json":
        return ""
    with path.open(encoding="utf-8") as file:
        return ", lines=True" if file.read(100).lstrip().startswith("{") else ""
