"""The first lines of a program, with which an answer begins: they read the tables."""

import json
import re
from collections.abc import Sequence
from os import scandir
from os.path import isfile
from pathlib import Path

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.prompts.tables import find_table, is_text


MOST_NAMES = 6  # that are written out
NAME_CHARS = 80
MOST_CATEGORIES = 20  # different texts in the first rows of a column
ROWS_SEARCHED = 10_000  # for missing numbers, and for texts among them
ROWS_WITH_IMAGES = 50  # whose files are looked for
IMAGES = ".jpg", ".jpeg", ".png"
PIXELS = """from PIL import Image

def pixels(path):
    image = Image.open(path)
    image.draft("RGB", (64, 64))
    return np.asarray(image.convert("RGB").resize((32, 32))).ravel() / 255
"""
# Tells the chat template of a model that can think, such as Qwen3, not to
NO_THOUGHTS = {"enable_thinking": False}


def opening(comp: Competition) -> str:
    """
    Builds the beginning of an answer: a fence, and the first lines of a program. They read the tables, name features and targets
    if the tables show them, and end in the beginning of an import. A small model continues such a program, but if asked for
    one, it writes an essay, or takes numbers for images (docs/results.md).

    Args:
        comp ([`~trl_mle.competitions.Competition`]):
            The competition.

    Returns:
        `str`: The text; only a fence and `import` if the public files are not tables or have very long names.
    """
    found = [find_table(comp, stem, ROWS_SEARCHED) for stem in ("train", "test")]
    names = [
        comp.id_column,
        *comp.target_columns,
        *(name for _, table in filter(None, found) for name in table.columns),
    ]
    if not all(found) or any(len(str(name)) > NAME_CHARS or not str(name).isprintable() for name in names):
        return "```python\nimport"
    (train_path, train), (test_path, test) = filter(None, found)
    lines = ["```python", "import numpy as np", "import pandas as pd", ""]
    for name, path in (("train", train_path), ("test", test_path)):
        lines.append(f"{name} = pd.read_{path.suffix[1:]}({_quoted(f'input/{path.name}')}{_options(path)})")
    if comp.id_column in test.columns:
        lines.append(f"submission = test[[{_quoted(comp.id_column)}]].copy()")
    features = _features(comp, train, test)
    are_classes = _are_classes(comp, train)
    lines += [*features, *_labels(comp, train, test, are_classes)]
    reads_text = bool(features) and features[-1].endswith("# text")
    if len(comp.target_columns) > 1:
        goal = (
            f"submission[targets] to its {'probabilities' if are_classes or '[0, 1]' in comp.rule else 'predictions'}"
        )
    else:  # asked for the probabilities of one class, small models fail more often
        goal = f"submission[{_quoted(comp.target_columns[0])}] to its predictions"
    # With these names and words, fewer models split the rows or read the tables once more
    fit, rows = ("X_train and y_train", "X_test") if features else ("train", "test")
    lines += ["", f'# Fit a model to {fit}, set {goal} for {rows}, and write submission to "submission.csv"']
    lines.append("from sklearn.feature_extraction.text import" if reads_text else "from sklearn")
    return "\n".join(lines)


def opening_of(prompt: object) -> str:
    """The beginning of the answer to a prompt: the content of the last message, if it is the assistant's."""
    if isinstance(prompt, list) and prompt and prompt[-1]["role"] == "assistant":
        return str(prompt[-1]["content"])
    return ""


def without_opening(prompt: list) -> list:
    """The messages before the answer's beginning."""
    return prompt[:-1] if opening_of(prompt) else prompt


def after_thoughts(opening: str, asked: str) -> str:
    """The answer's beginning, after the end of a rendered prompt: if its template opened a thought, it is closed first."""
    return f"\n</think>\n\n{opening}" if opening and asked.rstrip().endswith("<think>") else opening


def _features(comp: Competition, train: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """
    Defines `X_train` and `X_test`: the columns of both tables that hold numbers or categories, the latter as indicators; without
    such columns, the images that they name, or their text. If rows lack numbers, the column's median is filled in: three of five
    programs of a small model ended at them.
    """
    no_features = {comp.group_column, *comp.target_columns}
    shared = [str(name) for name in test.columns if name in train.columns and name not in no_features]
    if comp.id_column in shared and not _is_prose(train[comp.id_column]):
        shared.remove(comp.id_column)
    texts = [name for name in shared if is_text(train[name]) or is_text(test[name])]
    categories = [name for name in texts if _is_category(train[name], test[name])]
    if not shared or texts == shared != categories:
        return _images(comp, train, test) or _texts(texts)
    used = [name for name in shared if name not in texts or name in categories]
    others = [name for name in map(str, test.columns) if name not in used]
    if len(used) <= MOST_NAMES:
        listed = f"[{_list(used)}]"
    elif len(others) == 1:
        listed = f"[name for name in test.columns if name != {_quoted(others[0])}]"
    elif len(others) <= MOST_NAMES // 2:
        listed = f"[name for name in test.columns if name not in ({_list(others)})]"
    else:
        numbers = list(test[others].select_dtypes("number").columns)
        ignore = ', errors="ignore"' if len(test) == ROWS_SEARCHED else ""  # later rows may hold texts
        dropped = f".drop([{_list(numbers)}]{ignore})" if numbers else ""
        listed = f'list(test.select_dtypes("number").columns{dropped})'
        categories = []
    left_out = [name for name in texts if name not in categories]
    note = f"  # text: {', '.join(left_out)}" if 0 < len(left_out) <= MOST_NAMES // 2 else ""
    numeric = [name for name in used if name not in texts]
    lacks_values = any(table[numeric].isna().any(axis=None) for table in (train, test))
    lines = [f"features = {listed}{note}"]
    if not categories and not lacks_values:
        return [*lines, "X_train, X_test = train[features], test[features]"]
    both = "pd.concat([train, test])[features]"
    lines.append(f"X = pd.get_dummies({both})" if categories else f"X = {both}")
    if lacks_values:
        lines.append("X = X.fillna(X.median(numeric_only=True))")
    return [*lines, "X_train, X_test = X[: len(train)], X[len(train) :]"]


def _images(comp: Competition, train: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """Defines `X_train` and `X_test` by small versions of the images that a column of both tables names."""
    endings = "", *IMAGES, *map(str.upper, IMAGES)
    folders = ["", *_folders(comp.public_dir)]
    paths = [f"{folder}{{name}}{ending}" for folder in folders for ending in endings]
    padded = [path for folder in folders for path in _with_zeros(comp.public_dir, folder)]

    def are_at(path: str, values: pd.Series) -> bool:
        files = (comp.public_dir / path.format(name=value) for value in values)
        # `isfile`, unlike a path's method, takes texts that are too long for a name
        return all(file.suffix.lower() in IMAGES and isfile(file) for file in files)

    def place(values: pd.Series) -> str | None:
        """How a program writes the path of an image. A folder may hold those of one class, so more than one are looked up."""
        every = paths + padded if values.dtype.kind in "iu" else paths
        return next((path for path in every if len(values) and are_at(path, values.head(ROWS_WITH_IMAGES))), None)

    for name in test.columns.intersection(train.columns):
        places = [place(table[name]) for table in (train, test)]
        if all(places):
            return ["", *PIXELS.splitlines(), ""] + [
                f"X_{part} = np.stack([pixels(f{_quoted(f'input/{path}')}) for name in {part}[{_quoted(name)}]])"
                for part, path in zip(("train", "test"), places, strict=True)
            ]
    return []


def _with_zeros(public_dir: Path, folder: str) -> list[str]:
    """How the images of a folder are named by numbers with leading zeros, such as 0001.png, which pandas reads as 1."""
    with scandir(public_dir / folder) as entries:
        images = (Path(entry.name) for entry in entries if entry.name.lower().endswith(IMAGES))
        image = next(images, Path())
    is_number = image.stem.isascii() and image.stem.isdecimal()
    return [f"{folder}{{name:0{len(image.stem)}}}{image.suffix}"] if is_number else []


def _folders(folder: Path, depth: int = 2) -> list[str]:
    """The folders in a folder, down to a depth, such as `images/` and `images/train/`."""
    with scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and re.fullmatch(r"[\w .-]+", entry.name))
    return [
        f"{name}/{below}"
        for name in names
        for below in ("", *(_folders(folder / name, depth - 1) if depth > 1 else ()))
    ]


def _is_category(train: pd.Series, test: pd.Series) -> bool:
    """Whether the values of a column of texts repeat, in the rows to predict, too: dates of sorted tables do not."""
    return train.astype(str).nunique() <= min(MOST_CATEGORIES, len(train) / 2) and test.isin(train).mean() > 0.5


def _texts(names: list[str]) -> list[str]:
    if len(names) == 1:
        return [f"X_train, X_test = train[{_quoted(names[0])}], test[{_quoted(names[0])}]  # text"]
    if not 1 < len(names) <= MOST_NAMES:
        return []
    joined = f'table[[{_list(names)}]].fillna("").astype(str).agg(" ".join, axis=1)'
    return [f"X_train, X_test = ({joined} for table in (train, test))  # text"]


def _is_prose(column: pd.Series) -> bool:
    """Whether most values have several words. Then an id column may be the text to learn from."""
    return is_text(column) and bool(column.astype(str).str.contains(r"\S\s+\S").mean() > 0.5)


def _labels(comp: Competition, train: pd.DataFrame, test: pd.DataFrame, are_classes: bool) -> list[str]:
    """
    Defines `y_train`, if the columns to learn are known, and `targets`, if there are several columns to fill. Where these say which
    class a row has, `y_train` is the number of the class: most classifiers take nothing else.
    """
    known = [name for name in comp.target_columns if name in train.columns]
    lacking = [str(name) for name in train.columns if name not in test.columns]
    learnt = known or (lacking if len(lacking) == 1 else [])
    targets = list(comp.target_columns)
    lines = []
    if len(learnt) == 1:
        lines.append(f"y_train = train[{_quoted(learnt[0])}]")
    elif learnt and len(learnt) <= MOST_NAMES and not are_classes:
        lines.append(f"y_train = train[[{_list(learnt)}]]")
    if len(targets) > MOST_NAMES:
        stem = re.sub(r"\d+$", "", targets[0])
        if "{" not in stem and targets == [f"{stem}{number}" for number in range(len(targets))]:
            lines.append(f"targets = [f{_quoted(stem + '{i}')} for i in range({len(targets)})]")
        elif comp.sample_submission.parent == comp.public_dir:
            columns = list(pd.read_csv(comp.sample_submission, nrows=0).columns)
            sample = f"pd.read_csv({_quoted(f'input/{comp.sample_submission.name}')}).columns"
            others = [name for name in columns if name not in targets]
            is_first = columns == [*others, *targets]
            lines.append(
                f"targets = {sample}[{len(others)}:]" if is_first else f"targets = {sample}.drop([{_list(others)}])"
            )
    elif len(targets) > 1:
        lines.append(f"targets = [{_list(targets)}]")
    if are_classes:
        lines.append("y_train = train[targets].to_numpy().argmax(axis=1)  # the number of the target that is 1")
    return lines


def _are_classes(comp: Competition, train: pd.DataFrame) -> bool:
    """Whether the targets say which class a row has: one of them is 1, and the others are 0."""
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


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))
