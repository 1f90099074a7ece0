"""Makes the user's own competition from a table: `trl-mle new train.csv --target price --metric rmse`."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.catalog import CONFIG
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.loading import list_competitions, load_competition
from trl_mle.competitions.metrics import Metric, Takes, find_metric
from trl_mle.competitions.prepared import check_links, csv_text, description, new_folder, write_file
from trl_mle.competitions.reading import (
    are_unclear_dates,
    as_read,
    as_times,
    clean_name,
    listed,
    order_in_dates,
    read_tables,
)
from trl_mle.competitions.split import held_out_rows, last_rows, whole_groups
from trl_mle.competitions.table_checks import (
    ID_NAME,
    compare_labels,
    first_cell,
    report_copies,
    report_odd_cells,
    report_splits,
    report_telling_columns,
    shortened,
)  # fmt: skip
from trl_mle.competitions.targets import (
    check_target,
    constant_guesses,
    make_answers,
    placeholder_answers,
    what_it_takes,
    zeros_and_ones,
)
from trl_mle.showing import metric_in_words


logger = logging.getLogger(__name__)

LEAST_ROWS = 20
FINAL = "final"  # folder with all labels, and with the unlabelled rows


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
    _check_name(folder.name)
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
        check_target(rows[name], metric, known.takes)
    # Tables are often sorted by the target: neither the order of the rows nor a counting id may reveal it
    rows = rows.iloc[np.random.RandomState(0).permutation(len(rows))]
    ids, id_column = _ids(rows, id_column, targets)
    goals = {name: f"`{name}`" for name in targets}
    if known.takes in (Takes.SCORES, Takes.ZEROS_AND_ONES):
        for name in targets:
            rows[name], meaning = zeros_and_ones(rows[name], metric)
            goals[name] += meaning
    answers, labels = make_answers(rows, targets, metric, known.takes)
    features = _informative(rows.drop(columns=[*targets, id_column], errors="ignore"))
    if features.empty:
        raise CompetitionError(
            f"{table} has no column but {', '.join([id_column, *targets])}: there is nothing to predict from"
        )
    if split is None:
        report_splits(features)
    is_test, order = _hidden_rows(rows, targets, answers.set_index(ids.to_numpy()), known.takes, split, test_share)
    cells = pd.concat([ids, features], axis=1)
    labelled = pd.concat([cells, rows[targets]], axis=1)
    seen = as_read(labelled)
    report_copies(labelled.drop(columns=id_column), is_test)
    report_odd_cells(features, seen)
    report_telling_columns(seen.drop(columns=[*targets, *[id_column] * (id_column not in rows)]), seen[targets])
    sample = pd.DataFrame({id_column: ids[is_test], **constant_guesses(answers[~is_test], known, int(is_test.sum()))})
    files = {
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
        files |= {
            f"{FINAL}/train.csv": labelled,
            f"{FINAL}/test.csv": unknown,
            f"private/{FINAL}.csv": pd.DataFrame(unknown_ids | placeholder_answers(answers, known.takes, count)),
            f"{FINAL}/sample_submission.csv": pd.DataFrame(unknown_ids | constant_guesses(answers, known, count)),
        }
    layout = {"id": folder.name, "metric": metric, "id_column": id_column} | _layout(answers, is_test, split)
    if higher_is_better is not None:
        layout |= {"higher_is_better": higher_is_better, "takes": str(known.takes)}
    text = _description(folder.name, sample, features, goals, order, labels, metric, known)
    with new_folder(folder, exists) as staged:
        for name, part in files.items():
            write_file(staged / name, csv_text(part))
        for name in ("public", FINAL) if test is not None else ("public",):
            write_file(staged / name / "description.md", text)
        competition = write_config(staged, layout, targets)
        score = competition.grade(competition.sample_submission)
        if not score.valid:
            raise CompetitionError(
                f"{metric} cannot score a constant guess of {', '.join(targets)}: {score.error}; make the competition with "
                f"another metric, then write metric: {metric} into {CONFIG}"
            )
    return load_competition(str(folder.absolute()))


def _layout(answers: pd.DataFrame, is_test: np.ndarray, split: str | None) -> dict[str, Any]:
    """What `competition.yaml` says about columns."""
    layout: dict[str, Any] = {"target_columns": list(answers.columns)}
    if split is not None and split.startswith("group:"):
        layout["group_column"] = clean_name(split.removeprefix("group:"))
    whole, hidden = as_read(answers), as_read(answers[is_test])
    texts = [name for name in whole if is_numeric_dtype(hidden[name]) and not is_numeric_dtype(whole[name])]
    if texts:  # labels such as 1, 2 and x, where no hidden row has an x
        layout["text_columns"] = texts
    return layout


def _check_name(name: str) -> None:
    if not path_slug(name):
        raise CompetitionError(f"{name!r} has no letter from a to z and no digit: name another folder with --to")
    if name in list_competitions():
        raise CompetitionError(f"a competition of ours is called {name!r}: name another folder with --to")


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
    check_links(folder)
    return replace(
        competition,
        public_dir=folder,
        sample_submission=folder / "sample_submission.csv",
        answers=folder.parent / "private" / f"{FINAL}.csv",
        holdout=0.0,
    )


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
        where = first_cell(
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
        if ID_NAME.search(name):
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


def _hidden_rows(
    rows: pd.DataFrame, targets: Sequence[str], answers: pd.DataFrame, takes: Takes, split: str | None, share: float
) -> tuple[np.ndarray, str]:
    """A mask of the rows to hide, and what the description says about them. The index of the answers holds the ids."""
    is_test, order = (
        (held_out_rows(answers, share), "")
        if split is None
        else _split(rows.drop(columns=list(targets)), split, share)
    )
    if not is_test.any() or is_test.all():
        raise CompetitionError(f"{is_test.sum()} of {len(rows)} rows would be hidden: take another --test_share")
    if split is not None and takes not in (Takes.NUMBERS, Takes.TEXTS):
        compare_labels(rows[list(targets)], is_test, f"--split {split} with --test_share {share:g}", takes)
    return is_test, order


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
        where = first_cell(rows[name], is_none)
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
    return "" if known.empty else shortened(known.iloc[0])
