"""The lines of a begun program that define `X_train` and `X_test`."""

import json
import re
from collections.abc import Collection, Sequence
from itertools import product
from os.path import isfile
from pathlib import Path
from typing import Literal

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import Takes
from trl_mle.competitions.own import FINAL
from trl_mle.prompts.tables import find_table, is_text, read_table


Reads = Literal["tables", "texts", "images"]  # what `X_train` is made of

MOST_NAMES = 6  # that are written out
NAME_CHARS = 80
MOST_CATEGORIES = 20  # different texts in the first rows of a column
ROWS_SEARCHED = 100_000  # for missing numbers, and for texts among them
ROWS_WITH_IMAGES = 50  # whose files are looked for
DAYS = ["%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%Y", "%d.%m.%y", "%m-%d-%Y", "%d-%m-%Y"]
DAYS += ["%d-%b-%Y", "%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%Y %b", "%b %Y"]
HOURS = ["", " %H:%M", " %H:%M:%S", " %I:%M %p"]
DATES = ["ISO8601", *map("".join, product(DAYS, HOURS))]  # formats for `pandas.to_datetime`
DATE = r"(?=.*\d\d)\w+[-/., ]+\w.{,25}"  # and other short texts; numbers alone would be years in ISO 8601
IMAGES = ".jpg", ".jpeg", ".png"
PIXELS = """from PIL import Image

def pixels(path):
    image = Image.open(path)
    image.draft("RGB", (64, 64))
    return np.asarray(image.convert("RGB").resize((32, 32))).ravel() / 255
"""


def find_tables(comp: Competition) -> tuple[tuple[Path, pd.DataFrame], tuple[Path, pd.DataFrame]] | None:
    """The tables `train` and `test`, with their paths; `None` if one is missing, or has unprintable names."""
    train, test = (find_table(comp, stem, ROWS_SEARCHED) for stem in ("train", "test"))
    if train is None or test is None:
        return None
    names = [comp.id_column, *comp.target_columns, *train[1].columns, *test[1].columns]
    if any(len(str(name)) > NAME_CHARS or not str(name).isprintable() for name in names):
        return None
    return train, test


def what_it_reads(comp: Competition) -> Reads:
    """What the programs of a competition read."""
    found = find_tables(comp)
    return "tables" if found is None else features(comp, found[0][1], found[1][1])[1]


def features(
    comp: Competition, train: pd.DataFrame, test: pd.DataFrame, without: Collection[str] = ()
) -> tuple[list[str], Reads]:
    """
    The lines that define `X_train` and `X_test`, empty if the tables do not show how, and what they are made of: the
    numbers, categories, dates and groups of both tables, or else the images that they name, or their text. Missing
    numbers become the median: three of five programs of a small model ended at them.
    """
    final = read_table(comp.public_dir.parent / FINAL / "test.csv", ROWS_SEARCHED)  # the rows without labels
    tables = [table for table in (train, test, final) if table is not None]
    no_features = {comp.group_column, *comp.target_columns}
    shared = [str(name) for name in test.columns if name in train.columns and name not in no_features]
    if comp.id_column in shared:
        ids = train[comp.id_column]  # the text to learn from, if most have several words
        if not is_text(ids) or ids.astype(str).str.contains(r"\S\s+\S").mean() <= 0.5:
            shared.remove(comp.id_column)
    texts = [name for name in shared if is_text(train[name]) or is_text(test[name])]
    categories = [name for name in texts if _repeats(train[name], test[name], min(MOST_CATEGORIES, len(train) / 2))]
    rest = [name for name in texts if name not in categories]
    formats = {name: None if "dates" in without else date_format_of(train[name], test[name]) for name in rest}
    dates = [name for name in formats if formats[name] is not None]
    if not shared or (texts == shared and len(texts) > len(categories) + len(dates)):
        if images := _images(comp, train, test):
            return images, "images"
        return _texts(texts, tables)
    dates = dates[: MOST_NAMES // 2]
    used = [name for name in shared if name not in texts or name in categories]
    others = [name for name in map(str, test.columns) if name not in used]
    if len(used) <= MOST_NAMES:
        chosen = f"[{listed(used)}]"
    elif len(others) == 1:
        chosen = f"[name for name in test.columns if name != {quoted(others[0])}]"
    elif len(others) <= MOST_NAMES // 2:
        chosen = f"[name for name in test.columns if name not in ({listed(others)})]"
    else:
        numbers = list(test[others + categories].select_dtypes(["number", "bool"]).columns)  # missing in all of `test`
        ignore = ', errors="ignore"' if len(test) == ROWS_SEARCHED else ""  # later rows may hold texts
        dropped = f".drop([{listed(numbers)}]{ignore})" if numbers else ""
        categories = categories[:MOST_NAMES]
        chosen = f'list(test.select_dtypes(["number", "bool"]).columns{dropped})'
        chosen += f" + [{listed(categories)}]" if categories else ""
    groups = [name for name in formats if name not in dates and _repeats(train[name], test[name], len(train) / 3)]
    has_means = comp.scoring.takes is Takes.NUMBERS and len(comp.target_columns) == 1 and "means" not in without
    groups = groups[: MOST_NAMES // 2] if has_means and comp.target_columns[0] in train else []
    means = _means(comp.target_columns[0], groups)
    left_out = [name for name in texts if name not in (*categories, *dates, *groups)]
    note = f"  # text: {', '.join(left_out)}" if 0 < len(left_out) <= MOST_NAMES // 2 else ""
    numeric = [name for name in used if name not in texts]
    lacks_values = _lack_values(tables, numeric)
    lines = [f"features = {chosen}{note}"]
    if not categories and not lacks_values and not dates:
        return [*lines, "X_train, X_test = train[features], test[features]", *means], "tables"
    both = "both[features]" if dates else "pd.concat([train, test])[features]"
    lines += ["both = pd.concat([train, test])"] if dates else []
    lines.append(f"X = pd.get_dummies({both})" if categories else f"X = {both}")
    if dates:
        lines += _parts(train, {name: str(formats[name]) for name in dates})
    if lacks_values or dates:
        lines.append("X = X.fillna(X.median(numeric_only=True))")
    return [*lines, "X_train, X_test = X[: len(train)], X[len(train) :]", *means], "tables"


def _images(comp: Competition, train: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """Defines `X_train` and `X_test` by small versions of the images that a column of both tables names."""
    endings = "", *IMAGES, *map(str.upper, IMAGES)
    folders = ["", *_folders(comp.public_dir)]
    paths = [f"{folder}{{name}}{ending}" for folder in folders for ending in endings]

    def are_at(path: str, values: pd.Series) -> bool:
        files = (comp.public_dir / path.format(name=value) for value in values)
        # `isfile`, unlike a path's method, takes texts that are too long for a name
        return all(file.suffix.lower() in IMAGES and isfile(file) for file in files)

    def place(values: pd.Series) -> str | None:
        """How a program writes the path of an image. A folder may hold those of one class."""
        return next((path for path in paths if len(values) and are_at(path, values.head(ROWS_WITH_IMAGES))), None)

    for name in test.columns.intersection(train.columns):
        places = [place(table[name]) for table in (train, test)]
        if all(places):
            return ["", *PIXELS.splitlines(), ""] + [
                f"X_{part} = np.stack([pixels(f{quoted(f'input/{path}')}) for name in {part}[{quoted(name)}]])"
                for part, path in zip(("train", "test"), places, strict=True)
            ]
    return []


def _folders(folder: Path) -> list[str]:
    """The folders in a folder, and those in these, such as `images/` and `images/train/`."""
    paths = sorted([*folder.glob("*/"), *folder.glob("*/*/")])
    names = [path.relative_to(folder).as_posix() for path in paths]
    return [f"{name}/" for name in names if re.fullmatch(r"[\w ./-]+", name)]


def _repeats(train: pd.Series, test: pd.Series, most: float) -> bool:
    """Whether the values of a column of texts repeat, in the rows to predict, too: dates of sorted tables do not."""
    return train.astype(str).nunique() <= most and test.isin(train).mean() > 0.5


def _to_dates(column: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(column, format=form, errors="coerce", utc=True)


def date_format_of(train: pd.Series, test: pd.Series) -> str | None:
    """The format of dates that nine of ten texts of both columns have, if any. In monthly data, days repeat."""
    columns = [column.dropna().astype(str) for column in (train, test)]
    sample, found = columns[0].drop_duplicates().head(20), {}
    for form in DATES if sample.str.fullmatch(DATE).mean() > 0.5 else ():
        if _to_dates(sample, form).notna().mean() > 0.5:
            share = min(_to_dates(column, form).notna().mean() for column in columns)
            if share > 0.9:
                found[form] = share, -_to_dates(columns[0], form).dt.day.nunique()
    return max(found, key=found.__getitem__, default=None)


def _parts(train: pd.DataFrame, dates: dict[str, str]) -> list[str]:
    """Adds to `X` days, which imply the year, and the parts in which dates differ."""
    times = [_to_dates(train[name], form).dt for name, form in dates.items()]
    parts = [part for part in ("month", "day_of_week", "hour") if any(getattr(t, part).nunique() > 1 for t in times)]
    return [
        f"for name, form in {json.dumps(dates, ensure_ascii=False)}.items():",
        '    date = pd.to_datetime(both[name], format=form, errors="coerce", utc=True)',
        '    X[f"{name} days"] = (date - date.min()) / pd.Timedelta(days=1)',
        f"    for part in [{listed(parts)}]:",
        '        X[f"{name} {part}"] = getattr(date.dt, part)',
    ]


def _means(target: str, groups: Sequence[str]) -> list[str]:
    """Adds the target's mean in the rows of `train` with the same text; for each of these, the mean in other folds."""
    lines = [
        "from sklearn.preprocessing import TargetEncoder",
        "np.random.seed(0)  # for the folds",
        'encoder = TargetEncoder(target_type="continuous").set_output(transform="pandas")',
        f"groups = [{listed(groups)}]",
        f"X_train = X_train.join(encoder.fit_transform(train[groups].astype(str), train[{quoted(target)}]))",
        "X_test = X_test.join(encoder.transform(test[groups].astype(str)))",
    ]
    return lines if groups else []


def _lack_values(tables: Sequence[pd.DataFrame], names: list[str]) -> bool:
    """Whether values are missing in the first rows of these columns, or may be in later ones."""
    return any(len(table) == ROWS_SEARCHED or table[names].isna().any(axis=None) for table in tables)


def _texts(names: list[str], tables: Sequence[pd.DataFrame]) -> tuple[list[str], Reads]:
    if not 1 <= len(names) <= MOST_NAMES:
        return [], "tables"
    joined = f'table[[{listed(names)}]].fillna("").astype(str).agg(" ".join, axis=1)'
    both = f"({joined} for table in (train, test))"
    if len(names) == 1:
        filled = f"[{quoted(names[0])}]" + '.fillna("")' * _lack_values(tables, names)
        both = f"train{filled}, test{filled}"
    return [f"X_train, X_test = {both}  # text"], "texts"


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
