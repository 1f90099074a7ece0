"""Makes the user's own competition from a table: `trl-mle new train.csv --target price --metric rmse`."""

import contextlib
import logging
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from trl_mle.competitions.catalog import CONFIG
from trl_mle.competitions.competition import MAX_COLUMNS, Competition, CompetitionError, path_slug
from trl_mle.competitions.loading import list_competitions, load_competition
from trl_mle.competitions.metrics import Metric, Takes, find_metric
from trl_mle.competitions.prepared import csv_text, description, put_folder, write_file
from trl_mle.competitions.reading import (
    are_unclear_dates,
    as_read,
    as_times,
    clean_name,
    listed,
    order_in_dates,
    read_tables,
)
from trl_mle.competitions.split import held_out_rows, is_measured, last_rows, whole_groups
from trl_mle.showing import metric_in_words


logger = logging.getLogger(__name__)

LEAST_ROWS = 20
LEAST_OTHERS = 5  # rows without the most frequent label; with fewer, a column may determine the labels by chance
LEAST_TIMES = 5  # different dates or ids, with which a random split may leak
FINAL = "final"  # folder with all labels, and with the unlabelled rows
_ID = re.compile(r"(?:^|[\W_]|[a-z])I[dD]$|(?:^|[\W_])id$")
_WHO = re.compile(r"name|person|subject|patient|participant|user|customer|player", re.IGNORECASE)


def new_competition(
    table: Path,
    targets: Sequence[str],
    metric: str,
    folder: Path,
    id_column: str | None = None,
    test_share: float = 0.25,
    test: Path | None = None,
    higher_is_better: bool | None = None,
    split: str | None = None,
) -> Competition:
    """
    Makes a competition from a labelled table: a part of the rows, stratified by label, becomes the test set. Rows without a
    label and columns without information are left out. What programs should know is written into the description, and what
    the user should know is logged, a line for each.

    Args:
        table (`Path`), test (`Path`, *optional*):
            Tables with a row for each example, with and without labels, see [`~trl_mle.competitions.reading.read_tables`]. The
            latter's rows, with all of the former, become the folder `final/`, see [`final_competition`].
        targets (`Sequence[str]`), id_column (`str`, *optional*):
            Columns: those to predict (for probabilities, one of labels), and that of unique ids. By default, the first whose
            name ends in `id` and whose values differ; else ids are made.
        metric (`str`), higher_is_better (`bool`, *optional*):
            As in [`~trl_mle.competitions.metrics.find_metric`]. Whether a function of your own compares labels or numbers
            is found from the targets, and written into `competition.yaml`.
        folder (`Path`):
            Folder to write, which must not exist yet; its name is the competition's.
        test_share (`float`, *optional*, defaults to `0.25`):
            Share of the rows whose labels to hide.
        split (`str`, *optional*):
            Hides the last rows (`"time:COLUMN"`, of dates or numbers), or all rows of some groups (`"group:COLUMN"`).

    Raises:
        [`CompetitionError`], `FileExistsError`, `FileNotFoundError`: The table cannot become a competition.
    """
    exists = FileExistsError(f"{folder} exists: name another folder with --to")
    if folder.exists():
        raise exists
    if not path_slug(folder.name):
        raise CompetitionError(
            f"{folder.name!r} has no letter from a to z and no digit: name another folder with --to"
        )
    if folder.name in list_competitions():
        raise CompetitionError(f"a competition of ours is called {folder.name!r}: name another folder with --to")
    try:
        known = find_metric(metric, higher_is_better)
    except ValueError as error:
        raise CompetitionError(str(error)) from error
    if not 0 < test_share < 1:
        raise CompetitionError(f"test_share must be between 0 and 1, got {test_share:g}")
    targets, id_column = [clean_name(name) for name in targets], id_column and clean_name(id_column)
    with_labels = [] if known.takes is Takes.NUMBERS and higher_is_better is None else targets
    rows, *unlabelled = read_tables([table] if test is None else [table, test], with_labels)
    rows = _labelled(rows, table, targets, id_column)
    if higher_is_better is not None:
        known = known._replace(takes=what_it_takes(rows[targets]))
    for name in targets:
        _check_target(rows[name], metric, known.takes)
    # Tables are often sorted by the target: neither the order of the rows nor a counting id may reveal it
    rows = rows.iloc[np.random.RandomState(0).permutation(len(rows))]
    ids, id_column = _ids(rows, id_column, targets)
    goals = {name: f"`{name}`" for name in targets}
    if known.takes in (Takes.SCORES, Takes.ZEROS_AND_ONES):
        for name in targets:
            rows[name], meaning = _zeros_and_ones(rows[name], metric)
            goals[name] += meaning
    answers, labels = _answers(rows, targets, metric, known.takes)
    features = _informative(rows.drop(columns=[*targets, id_column], errors="ignore"))
    if features.empty:
        raise CompetitionError(
            f"{table} has no column but {', '.join([id_column, *targets])}: there is nothing to predict from"
        )
    if split is None:
        _report_leaks(features)
        is_test, order = held_out_rows(answers.set_index(ids.to_numpy()), test_share), ""
    else:
        is_test, order = _split(rows.drop(columns=targets), split, test_share)
    if not is_test.any() or is_test.all():
        raise CompetitionError(f"{is_test.sum()} of {len(rows)} rows would be hidden: take another --test_share")
    if split is not None and known.takes not in (Takes.NUMBERS, Takes.TEXTS):
        _compare_labels(rows[targets], is_test, f"--split {split} with --test_share {test_share:g}", known.takes)
    cells = pd.concat([ids, features], axis=1)
    labelled = pd.concat([cells, rows[targets]], axis=1)
    seen = as_read(labelled)
    _report_copies(labelled.drop(columns=id_column), is_test)
    _report_odd_cells(features, seen)
    _report_telling_columns(seen.drop(columns=[*targets, *[id_column] * (id_column not in rows)]), seen[targets])
    sample = pd.DataFrame({id_column: ids[is_test], **constant_guesses(answers[~is_test], known, int(is_test.sum()))})
    shown = {
        "public/train.csv": labelled[~is_test],
        "public/test.csv": cells[is_test],
        "public/sample_submission.csv": sample,
        "private/test.csv": pd.concat([ids, answers], axis=1)[is_test],
    }
    if test is not None:
        if test.samefile(table):
            raise CompetitionError(f"--test names the table with labels, {table}: it takes rows without labels")
        unknown = _test_rows(unlabelled[0], test, rows, seen[features.columns], id_column, targets)
        unknown_ids, count = {id_column: unknown[id_column]}, len(unknown)
        shown |= {
            f"{FINAL}/train.csv": labelled,
            f"{FINAL}/test.csv": unknown,
            f"private/{FINAL}.csv": pd.DataFrame(unknown_ids | _stand_in(answers, known.takes, count)),
            f"{FINAL}/sample_submission.csv": pd.DataFrame(unknown_ids | constant_guesses(answers, known, count)),
        }
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent, prefix=f".{folder.name}-") as staging:
        staged = Path(staging, folder.name)
        for name, part in shown.items():
            write_file(staged / name, csv_text(part))
        text = _description(folder.name, sample, features, goals, order, labels, metric, known)
        write_file(staged / "public" / "description.md", text)
        if test is not None:
            shutil.copy(staged / "public" / "description.md", staged / FINAL)
        layout: dict[str, Any] = {"id": folder.name, "metric": metric, "id_column": id_column}
        layout["target_columns"] = list(answers.columns)
        if split is not None and split.startswith("group:"):
            layout["group_column"] = clean_name(split.removeprefix("group:"))
        whole, hidden = as_read(answers), as_read(answers[is_test])
        texts = [name for name in whole if is_numeric_dtype(hidden[name]) and not is_numeric_dtype(whole[name])]
        if texts:  # labels such as 1, 2 and x, where no hidden row has an x
            layout["text_columns"] = texts
        if higher_is_better is not None:
            layout |= {"higher_is_better": higher_is_better, "takes": str(known.takes)}
        competition = write_config(staged, layout, targets)
        score = competition.grade(competition.sample_submission)
        if not score.valid:
            raise CompetitionError(
                f"{metric} cannot score a constant guess of {', '.join(targets)}: {score.error}; make the competition with "
                f"another metric, then write metric: {metric} into {CONFIG}"
            )
        put_folder(staged, folder, exists)
    return load_competition(str(folder.absolute()))


def write_config(staged: Path, layout: Mapping[str, Any], targets: Sequence[str]) -> Competition:
    """
    Writes the `competition.yaml` of a competition that is complete otherwise, and loads it. Raises [`CompetitionError`], which
    names the targets, if its answers cannot be graded.
    """
    write_file(staged / CONFIG, yaml.safe_dump(dict(layout), sort_keys=False, allow_unicode=True))
    competition = load_competition(str(staged))
    try:
        competition.check_answers()
        if (final := final_competition(competition)) is not None:
            final.check_answers()
    except CompetitionError as error:  # it names a file that goes with the temporary folder
        raise CompetitionError(f"{competition.metric} cannot score {', '.join(targets)}: {error.__cause__}") from error
    return competition


def final_competition(competition: Competition) -> Competition | None:
    """
    The competition of the unlabelled rows, for programs that see all known labels; `None` if there are none. Its answers
    are placeholder labels: it only grades the format of a submission.
    """
    folder = competition.public_dir.parent / FINAL
    if not folder.is_dir():
        return None
    return replace(
        competition,
        public_dir=folder,
        sample_submission=folder / "sample_submission.csv",
        answers=folder.parent / "private" / f"{FINAL}.csv",
        holdout=0.0,
    )


def _report_telling_columns(known: pd.DataFrame, targets: pd.DataFrame) -> None:
    """Warns of columns that determine a target: they may have been made from it."""
    rows = pd.concat(
        [known, targets], axis=1
    ).drop_duplicates()  # where each is there twice, each column would seem to
    for target in targets:
        telling = [name for name in known if determines(rows[name], rows[target])]
        if telling:
            logger.warning(
                "each of these columns determines %r exactly: %s; leave out those that are not known before it is",
                target, listed(telling),
            )  # fmt: skip


def determines(column: pd.Series, target: pd.Series) -> bool:
    """Whether the column is a copy of the target, or its values or their order determine the target, other than by chance."""
    if len(target) - target.value_counts().iloc[0] < LEAST_OTHERS:
        return False
    values, labels = pd.factorize(column)[0], pd.factorize(target)[0]  # a missing value counts as one: -1
    if len(pd.unique(values * len(labels) + labels)) > len(pd.unique(values)):
        return False  # a value goes with several labels
    if column.nunique() <= len(column) / 2 or column.equals(target):
        return True
    if not is_numeric_dtype(column):
        return False
    order = np.argsort(column.to_numpy(float), kind="stable")
    if is_numeric_dtype(target):
        steps = np.diff(target.to_numpy(float)[order])
        return bool((steps >= 0).all() or (steps <= 0).all())
    borders = int(np.count_nonzero(np.diff(labels[order])))
    return target.nunique() <= len(target) / 4 and borders < target.nunique()


def _report_copies(rows: pd.DataFrame, is_test: np.ndarray) -> None:
    """Warns of hidden rows of which train.csv has a copy, with the answer."""
    each = pd.util.hash_pandas_object(rows, index=False)
    copies = int(each[is_test].isin(each[~is_test]).sum())
    if copies > 0.01 * is_test.sum():
        logger.warning(
            "%d of %d hidden rows are also in train.csv, with their targets: if they are the same examples, keep one of each",
            copies, is_test.sum(),
        )  # fmt: skip


def _report_odd_cells(features: pd.DataFrame, seen: pd.DataFrame) -> None:
    """Warns of columns of numbers in which a few cells are none, so that programs see texts."""
    for name in features:
        known = seen[name].dropna()
        is_odd = ~np.isfinite(pd.to_numeric(known, errors="coerce"))
        if 0 < is_odd.mean() <= 0.1:
            where = _first(features[name][known.index], is_odd)
            logger.warning("%r holds numbers, but also %s: correct or empty it if that is wrong", name, where)


def _first(cells: pd.Series, chosen: pd.Series) -> str:
    """The first of the chosen cells, for a message."""
    row, count = cells.index[chosen].min(), int(chosen.sum())
    return f"{_short(cells[row])!r} in row {row}" + (f" and {count - 1} more" if count > 1 else "")


def _test_rows(
    rows: pd.DataFrame, table: Path, labelled: pd.DataFrame, seen: pd.DataFrame, id_column: str, targets: Sequence[str]
) -> pd.DataFrame:
    """The unlabelled rows, with the features of the others, which programs see as `seen`; generated ids count from 0."""
    rows = rows[[name for name in rows if name not in targets or rows[name].any()]].copy()
    features = list(seen.columns)
    if missing := [name for name in [*features, *[id_column] * (id_column in labelled)] if name not in rows]:
        raise CompetitionError(
            f"{table} lacks {listed(missing)}, which the rows with labels have: add what is lacking, or remove it there"
        )
    if len(rows) < 2:  # correlations and areas under a curve need two
        raise CompetitionError(f"{table} has {len(rows)} rows: take 2 at least")
    if id_column not in rows:
        rows[id_column] = range(len(rows))
    _check_ids(rows[id_column])
    old, new = (pd.util.hash_pandas_object(part[features], index=False) for part in (labelled, rows))
    known = new.isin(old) & (old.duplicated().mean() < 0.01)  # unless equal rows are common
    if known.all() and not set(targets).isdisjoint(rows):  # the labelled table itself, or a part of it
        raise CompetitionError(f"{table} has only rows whose labels are known: --test takes others")
    same_ids = rows[id_column].isin(labelled.get(id_column, []))
    found = as_read(rows[features])
    numbers, were_numbers = (part.select_dtypes("number").columns for part in (found, seen))
    for name in were_numbers.difference(numbers):
        is_text = found[name].notna() & pd.to_numeric(rows[name], errors="coerce").isna()
        where = _first(
            rows[name], is_text if is_text.any() else found[name].notna()
        )  # such as a number too long for 64 bits
        raise CompetitionError(f"{table}: {name!r} is {where}, but the rows with labels have numbers: make both alike")
    empty = found.columns[found.isna().all()]
    for what, names in {
        "not used, because rows with labels belong in the other table": rows.columns.intersection(list(targets)),
        "not used, because the rows with labels lack it": rows.columns.difference([*labelled, id_column], sort=False),
        "without a value": empty,
        "only numbers here, and texts in the rows with labels": numbers.difference([*were_numbers, *empty]),
    }.items():
        if len(names):
            logger.warning("%s: %s: %s", table, what, listed(names))
    if (known | same_ids).any():
        counts = known.sum(), same_ids.sum(), len(rows)
        logger.warning("%s: %d rows and %d ids of %d are among those with labels", table, *counts)
    return rows[[id_column, *features]]


def _labelled(rows: pd.DataFrame, table: Path, targets: Sequence[str], id_column: str | None) -> pd.DataFrame:
    """The rows with all targets."""
    for name in [*targets, *([id_column] if id_column is not None else [])]:
        if name not in rows:
            columns = ", ".join(map(repr, rows.columns[:20]))  # so that an invisible character shows
            raise CompetitionError(f"{table} has no column {name!r}; it has {columns}")
    if len(set(targets)) < len(targets) or id_column in targets:
        raise CompetitionError("--target names a column twice, or the ids")
    for name in targets:
        if (is_none := rows[name] == "None").any() and not is_numeric_dtype(as_read(rows[[name]])[name]):
            if (rows[name] == "none").any():
                raise CompetitionError(
                    f"{name!r} has the labels 'None' and 'none', and pandas reads the former as a missing value: rename it"
                )
            rows[name] = rows[name].mask(is_none, "none")
            logger.warning("the label 'None' of %r is written 'none': pandas reads None as a missing value", name)
    unknown = as_read(rows[list(targets)]).isna().any(axis=1)
    if unknown.any():
        names = " or ".join(map(repr, targets))
        logger.warning("rows without %s are set aside: %d of %d", names, unknown.sum(), len(rows))
    if (count := int((~unknown).sum())) < LEAST_ROWS:
        raise CompetitionError(
            f"{table} has {count} rows with {' and '.join(map(repr, targets))}: take {LEAST_ROWS} at least"
        )
    return rows[~unknown]


def _ids(rows: pd.DataFrame, id_column: str | None, targets: Sequence[str]) -> tuple[pd.Series, str]:
    if id_column is not None:
        _check_ids(rows[id_column])
        return rows[id_column], id_column
    for name in rows.columns.drop(list(targets)):
        if _ID.search(name):
            with contextlib.suppress(CompetitionError):
                _check_ids(rows[name])
                if name != "id":
                    logger.warning("%r holds the rows' ids; --id names another column", name)
                return rows[name], name
    name = "id"
    while name in rows:
        name = f"row_{name}"
    return pd.Series(range(len(rows)), rows.index, name=name), name


def _check_ids(ids: pd.Series) -> None:
    same = _as_equal(ids)
    if (again := same.duplicated()).any():
        twice = same[again].iloc[0]
        texts = " and ".join(map(repr, sorted(set(ids[same == twice]))[:2]))
        raise CompetitionError(f"two rows have the {ids.name} {texts}: name a column with --id whose values differ")
    if (missing := as_read(ids.to_frame()).iloc[:, 0].isna()).any():
        raise CompetitionError(f"{ids[missing].iloc[0]!r} is no {ids.name}: programs would read it as a missing value")


def _as_equal(cells: pd.Series) -> pd.Series:
    """Cells that programs may read as the same, as the same value: 01 is 1 where a file, or a part of it, holds only numbers."""
    numbers = pd.to_numeric(cells, errors="coerce")
    return numbers.astype(object).where(numbers.abs() < 2**53, cells)


def _informative(features: pd.DataFrame) -> pd.DataFrame:
    """The columns with more than one value."""
    same = [name for name in features if features[name].nunique() == 1]
    if same:
        logger.warning("columns with the same cell in all rows are left out: %s", listed(same))
    return features.drop(columns=same)


def _report_leaks(features: pd.DataFrame) -> None:
    """Warns of columns that suggest another split than a random one."""
    for kind, found, why in (
        ("time", _holds_times, "holds times, and hidden rows lie between others: if later ones are to be predicted"),
        ("group", _repeats_ids, "repeats, and hidden rows have the same as others: if new ones are to be predicted"),
    ):
        if name := next((name for name in features if found(features[name])), None):
            logger.warning("%r %s, add --split %s", name, why, shlex.quote(f"{kind}:{name}"))


def _holds_times(cells: pd.Series) -> bool:
    values = cells[cells != ""].drop_duplicates().head(50)
    if len(values) < LEAST_TIMES:
        return False
    if is_numeric_dtype(as_read(values.to_frame()).iloc[:, 0]):
        return str(cells.name).casefold() == "year" and bool(values.str.fullmatch(r"(1[5-9]|20)\d\d").all())
    looks_so = values.str.contains(r"(?:1[5-9]|20)\d\d|\d[./-]\d\d?[./-]\d\d").all()
    return bool(looks_so and as_times(values).notna().all())


def _repeats_ids(cells: pd.Series) -> bool:
    is_id = _ID.search(str(cells.name)) or _WHO.fullmatch(str(cells.name))
    return bool(is_id) and LEAST_TIMES <= cells.nunique() <= len(cells) / 2


def _split(rows: pd.DataFrame, split: str, share: float) -> tuple[np.ndarray, str]:
    """A mask of the hidden rows, and what the description says about them."""
    kind, _, name = split.partition(":")
    name = clean_name(name)
    if kind not in ("time", "group") or name not in rows:
        columns = ", ".join(map(repr, rows.columns[:20]))
        raise CompetitionError(f"--split must be time:COLUMN or group:COLUMN, with one of {columns}; got {split!r}")
    if kind == "group":
        if lacking := int((rows[name] == "").sum()):
            logger.warning("--split %s: rows without %r stay together: %d of %d", split, name, lacking, len(rows))
        return whole_groups(_as_equal(rows[name]), share), f"No `{name}` of test.csv is in train.csv."
    if are_unclear_dates(rows[name]):
        raise CompetitionError(
            f"--split {split}: dates such as {rows[name].iloc[0]!r} may be misread: write them as 2024-01-31, months as 2024-01"
        )
    times = as_times(rows[name])
    if (is_none := times.isna()).any():
        where = _first(rows[name], is_none)
        raise CompetitionError(
            f"--split {split}: {name!r} is no number or date with a year, but {where}: correct it, as in 2024-01-31"
        )
    if first := order_in_dates(rows[name]):
        logger.warning("--split %s: in dates such as %r, %s is taken to come first", split, rows[name].iloc[0], first)
    is_test = last_rows(times, share)
    if is_test.any() and not is_test.all():
        ends = times[~is_test].max(), times[is_test].min()
        logger.warning("--split %s: train.csv ends %s, hidden rows begin %s", split, *map(_moment, ends))
    return is_test, f"By `{name}`, the rows of test.csv come after those of train.csv."


def _moment(time: Any) -> str:
    """A number, or a date as ISO 8601 writes it, with its time of day if there is one."""
    return str(time).removesuffix("+00:00").removesuffix(" 00:00:00")


def _compare_labels(targets: pd.DataFrame, is_test: np.ndarray, split: str, takes: Takes) -> None:
    """Warns of labels that only hidden rows have, and refuses a side that has a single one where two are needed."""
    for name, cells in as_read(targets).items():
        shown, hidden = cells[~is_test].unique().tolist(), cells[is_test].unique().tolist()
        for labels, side in (shown, "train.csv"), (hidden, "the hidden rows"):
            if len(labels) == 1 < cells.nunique() and (labels is shown or takes is Takes.SCORES):
                raise CompetitionError(f"{split} leaves {side} one label of {name!r}, {labels[0]!r}: change either")
        if only := sorted(set(hidden) - set(shown)):
            logger.warning("%s leaves train.csv no row with these labels of %r: %s", split, name, listed(only))


def what_it_takes(targets: pd.DataFrame) -> Takes:
    """What a function of the user's own compares: numbers if one of the targets looks measured, else labels."""
    numbers = targets.apply(pd.to_numeric, errors="coerce")
    measured = any((numbers[name] % 1 != 0).any() or is_measured(numbers[name]) for name in numbers)
    return Takes.NUMBERS if numbers.notna().all(axis=None) and measured else Takes.LABELS


def _answers(rows: pd.DataFrame, targets: Sequence[str], metric: str, takes: Takes) -> tuple[pd.DataFrame, list[Any]]:
    """The answers in the format of a submission, and for probabilities the labels that programs see, as models order them."""
    if takes is Takes.PROBABILITIES:
        if len(targets) > 1:
            raise CompetitionError(f"{metric} takes one --target, a column of labels")
        seen = as_read(rows[targets])[targets[0]]
        labels = sorted(seen.unique().tolist())
        if not 2 <= len(labels) <= min(len(rows) / 4, MAX_COLUMNS - 1):
            raise CompetitionError(
                f"{targets[0]!r} has {len(labels)} different values: {metric} takes labels, {MAX_COLUMNS - 1} at most, with "
                "four rows each on average"
            )
        return pd.DataFrame({f"{targets[0]}_{label}": (seen == label).astype(int) for label in labels}), labels
    columns = {}
    for name in targets:
        numbers = pd.to_numeric(rows[name], errors="coerce")
        is_whole = (numbers % 1 == 0).all() and numbers.abs().max() < 2**53
        is_text = takes is Takes.TEXTS or numbers.isna().any()
        columns[name] = rows[name] if is_text else numbers.astype(int) if is_whole else numbers
    return pd.DataFrame(columns), []


def _check_target(cells: pd.Series, metric: str, takes: Takes) -> None:
    """Refuses a target that the metric is not for, and warns of labels that look wrong."""
    numbers, labels = pd.to_numeric(cells, errors="coerce"), as_read(cells.to_frame()).iloc[:, 0].value_counts()
    if len(labels) == 1:
        raise CompetitionError(f"{cells.name!r} is {cells.iloc[0]!r} in all rows: there is nothing to learn")
    if takes is Takes.TEXTS and numbers.notna().all():
        raise CompetitionError(f"{metric} compares texts, and {cells.name!r} holds {cells.iloc[0]!r}")
    if takes is Takes.NUMBERS and (is_odd := ~np.isfinite(numbers)).any():
        do = "correct or empty it" if is_odd.mean() < 0.5 else "write plain numbers, or take accuracy for labels"
        raise CompetitionError(f"{metric} needs numbers, and {cells.name!r} holds {_first(cells, is_odd)}: {do}")
    if takes is Takes.PROBABILITIES and len(labels) <= len(cells) / 4 and (numbers % 1).abs().gt(0).any():
        raise CompetitionError(
            f"{cells.name!r} holds {cells[(numbers % 1).abs().gt(0)].iloc[0]}, and scikit-learn's classifiers take no fractions for labels: "
            "write a letter before each, or take rmse, mae or r2"
        )
    if takes is Takes.LABELS and numbers.notna().all():
        is_whole = numbers % 1 == 0
        if not is_whole.all() or numbers.nunique() > len(cells) / 2:
            raise CompetitionError(
                f"{cells.name!r} looks continuous ({cells.iloc[is_whole.argmin()]}, say), and {metric} is for labels: take "
                "rmse, mae or r2"
            )
    if takes not in (Takes.TEXTS, Takes.NUMBERS):
        names = labels.index.to_series()
        plain = names.astype(str).str.casefold().str.replace(" ", "")
        for what, odd in {
            "differ only in case or spaces: %s; write them alike": sorted(names[plain.duplicated(keep=False)]),
            "have a single row, to learn or to score: %s; merge or remove them": list(names[labels == 1]),
        }.items():
            if odd:
                logger.warning(f"labels of %r {what}", cells.name, listed(odd))


def _zeros_and_ones(cells: pd.Series, metric: str) -> tuple[pd.Series, str]:
    """Two labels as 0 and 1, in the order of scikit-learn's `classes_`, and what they mean."""
    seen = as_read(cells.to_frame()).iloc[:, 0]
    labels = sorted(seen.unique().tolist())
    if len(labels) != 2:
        raise CompetitionError(
            f"{metric} needs two labels in {cells.name!r}, which holds {listed(labels)}: take log_loss for labels, or rmse for "
            "measurements"
        )
    if labels == [0, 1] and not is_bool_dtype(seen):
        return cells, ""
    logger.warning("%r: 1 stands for %r and 0 for %r", cells.name, *reversed(labels))
    meaning = f" (1 for {_short(str(labels[1]))}, 0 for {_short(str(labels[0]))})"
    return (seen == labels[1]).astype(int).astype(str), meaning


def constant_guesses(answers: pd.DataFrame, metric: Metric, count: int) -> dict[str, Any]:
    """Values of the sample submission for each column: valid, but uninformative."""
    columns = {}
    for name, column in answers.items():
        guess = metric.constant_guess(column)
        if metric.takes is not Takes.PROBABILITIES:  # those sum to 1
            guess = [float(f"{value:.6g}") if isinstance(value, float) else value for value in guess]
        columns[str(name)] = np.resize(guess, count)
    return columns


def _stand_in(answers: pd.DataFrame, takes: Takes, count: int) -> dict[str, Any]:
    """Placeholder labels: all known labels of each column in turn, texts first, because they define valid values."""
    if takes is Takes.PROBABILITIES:
        one_hot = np.eye(len(answers.columns), dtype=int)[np.arange(count) % len(answers.columns)]
        return dict(zip(answers.columns, one_hot.T, strict=True))
    columns = {}
    for name in answers.columns:
        values = answers[name].unique()
        is_number = pd.to_numeric(pd.Series(values), errors="coerce").notna()
        columns[name] = np.resize(values[np.argsort(is_number, kind="stable")], count)
    return columns


def _description(
    name: str,
    sample: pd.DataFrame,
    features: pd.DataFrame,
    goals: Mapping[str, str],
    order: str,
    labels: Sequence[Any],
    metric: str,
    known: Metric,
) -> str:
    direction = "higher" if known.higher_is_better else "lower"
    what = ", ".join(goals.values())
    rule = known.rule_for(sample[sample.columns[1:]])
    evaluation = f"Submissions are scored by {metric_in_words(metric)}; {direction} is better. {rule}".strip()
    if labels:
        shown = ", ".join(map(str, labels[:20])) + (", …" if len(labels) > 20 else "")
        columns = f"There is a column with the probability of each label, in ascending order, as in classes_: {shown}."
        evaluation = f"{columns} {evaluation}"  # the order first: a prompt may not have room for more
    listed = features.columns[:40]
    data = "\n".join(f"- `{column}`: such as `{_example(features[column])}`." for column in listed)
    if len(features.columns) > len(listed):
        data += f"\n- {len(features.columns) - len(listed)} more columns."
    data += f"\n- {what}: to be predicted (train only)."
    return description(
        title=name,
        overview=f"Predict {what} of each row of test.csv from its other columns. {order}".strip(),
        evaluation=evaluation,
        submission="A row for each row of test.csv, in this form:",
        sample=sample,
        data=data,
    )


def _example(column: pd.Series) -> str:
    known = column[column != ""]
    return "" if known.empty else _short(known.iloc[0])


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:40] + "…"
