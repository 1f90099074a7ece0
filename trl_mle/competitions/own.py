"""Makes the user's own competition from a table: `trl-mle new train.csv --target price --metric rmse`."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from trl_mle.competitions.catalog import CONFIG
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.loading import list_competitions, load_competition
from trl_mle.competitions.metrics import Metric, Takes, find_metric
from trl_mle.competitions.prepared import check_links, csv_text, description, new_folder, write_file
from trl_mle.competitions.reading import as_read, as_times, clean_name, first_cell, listed, read_table, shortened
from trl_mle.competitions.split import held_out_rows, last_rows, whole_groups
from trl_mle.competitions.table_checks import ID_NAME, report_copies, report_splits, report_telling_columns
from trl_mle.competitions.targets import (
    check_target,
    constant_guesses,
    make_answers,
    placeholder_answers,
    what_it_takes,
    zeros_and_ones,
)
from trl_mle.showing import metric_in_words
from trl_mle.spelling import did_you_mean


logger = logging.getLogger(__name__)

LEAST_ROWS = 20
FINAL = "final"  # folder with all labels, and with the unlabelled rows
FOLDS = "fold-0", "fold-1", "fold-2"  # folders that hide a third of the shown rows each


class _Examples(NamedTuple):
    """The rows with labels, in random order, in parts: `goals` names each target for the description."""

    ids: pd.Series
    features: pd.DataFrame
    targets: pd.DataFrame
    answers: pd.DataFrame  # in the format of a submission
    labels: list[Any]  # that have a column of probabilities each
    goals: list[str]
    scoring: Metric
    has_own_ids: bool

    @property
    def labelled(self) -> pd.DataFrame:
        return pd.concat([self.ids, self.features, self.targets], axis=1)


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
    read_csv: Mapping[str, Any] | None = None,
) -> Competition:
    """
    Makes a competition from a labelled table: a part of the rows, stratified by label, becomes the test set. Rows
    without a label and columns without information are left out. What the user should know is logged, a line for each.

    Args:
        table (`Path`), test (`Path`, *optional*), read_csv (`Mapping[str, Any]`, *optional*):
            Tables with and without labels, and options of [`~trl_mle.competitions.reading.read_table`] for both. The
            latter's rows become the folder `final/`, see [`final_competition`].
        targets (`Sequence[str]`), id_column (`str`, *optional*):
            Columns to predict, and that of unique ids: by default, the first whose name ends in `id`, else made.
        metric (`str`), higher_is_better (`bool`, *optional*), folder (`Path`):
            See [`~trl_mle.competitions.metrics.find_metric`]; a new folder, whose name is the competition's.
        test_share (`float`, *optional*, defaults to `0.25`), split (`str`, *optional*):
            Share of the labels to hide, and of which rows: the last (`"time:COLUMN"`) or groups (`"group:COLUMN"`).

    Raises:
        `ValueError`, `FileExistsError`, `FileNotFoundError`: The table cannot become a competition.
    """
    if not path_slug(folder.name) or folder.name in list_competitions():
        raise CompetitionError(f"{folder.name!r} lacks letters from a to z, or is ours: take another --to")
    options = dict(read_csv or {})
    targets = [clean_name(name) for name in targets]
    id_column = None if id_column is None else clean_name(id_column)
    scoring = find_metric(metric, higher_is_better)
    with new_folder(folder, FileExistsError(f"{folder} exists: name another folder with --to")) as staged:
        rows = _labelled(read_table(table, options), table, targets, id_column)
        if higher_is_better is not None:
            scoring = scoring._replace(takes=what_it_takes(rows[targets]))
        examples = _examples(rows, targets, id_column, metric, scoring)
        is_test, order, groups = _hidden(rows, examples, split, test_share, options.get("date_format"))
        if not is_test.any() or is_test.all():
            raise CompetitionError(f"{is_test.sum()} of {len(rows)} rows would be hidden: take another --test_share")
        if (unseen := _unseen(examples, is_test)).any():
            only = listed(examples.targets.iloc[:, 0][unseen].unique())
            raise CompetitionError(f"--split {split} hides all rows of {only}: leave them out, or split otherwise")
        report_copies(pd.concat([examples.features, examples.targets], axis=1), is_test)
        ids = [examples.ids] if examples.has_own_ids else []
        report_telling_columns(as_read(pd.concat([*ids, examples.features], axis=1)), as_read(examples.targets))
        parts = {"public": is_test}
        if test is not None and (split is None or groups is not None):
            parts |= _folds(examples, ~is_test, groups)
        files: dict[str, pd.DataFrame | str] = {}
        for name, mask in parts.items():
            files |= _files(examples, mask, name)
        if test is not None:
            files |= _final_files(test, options, examples)
        text = _description(folder.name, examples, is_test, order, metric)
        files |= {f"{name}/description.md": text for name in (*parts, FINAL) if f"{name}/test.csv" in files}
        layout = {"id": folder.name, "metric": metric, "id_column": examples.ids.name}
        layout |= _columns(examples.answers, list(parts.values()), split)
        if higher_is_better is not None:
            layout |= {"higher_is_better": higher_is_better, "takes": str(scoring.takes)}
        for name, part in files.items():
            write_file(staged / name, part if isinstance(part, str) else csv_text(part))
        write_config(staged, layout, targets)
    return load_competition(str(folder.absolute()))


def write_config(staged: Path, layout: Mapping[str, Any], targets: Sequence[str]) -> None:
    """Completes a competition by its `competition.yaml`. Raises [`CompetitionError`] if it cannot be graded."""
    write_file(staged / CONFIG, yaml.safe_dump(dict(layout), sort_keys=False, allow_unicode=True))
    competition = load_competition(str(staged))
    try:
        for part in filter(None, (competition, final_competition(competition))):
            part.check_answers()
    except CompetitionError as error:  # it names a file that goes with the temporary folder
        raise CompetitionError(f"{competition.metric} cannot score {', '.join(targets)}: {error.__cause__}") from error
    if not (score := competition.grade(competition.sample_submission)).valid:
        raise CompetitionError(f"{competition.metric} cannot score a constant {', '.join(targets)}: {score.error}")
    is_error = competition.scoring.takes is Takes.NUMBERS and not competition.higher_is_better
    if is_error and score.value is not None and score.value < 1e-3:
        what = f"a constant guess scores {score.value:.5f}, and scores have five decimals"
        raise CompetitionError(f"{what}: multiply {', '.join(targets)} by 1000, or take another metric")


def final_competition(competition: Competition) -> Competition | None:
    """The competition of the unlabelled rows, if any; its answers are placeholders: it grades only the format."""
    return _part(competition, FINAL)


def folds(competition: Competition) -> list[Competition]:
    """The competitions that hide three complementary parts of the rows that it shows, with all other labels. Empty if
    [`new_competition`] made none, or the metric cannot score one of them."""
    parts = [part for name in FOLDS if (part := _part(competition, name))]
    with contextlib.suppress(CompetitionError):
        for part in parts:
            part.check_answers()
        return parts
    return []


def _part(competition: Competition, name: str) -> Competition | None:
    folder = competition.public_dir.parent / name
    if not folder.is_dir():
        return None
    check_links(folder)
    sample, answers = folder / "sample_submission.csv", folder.parent / "private" / f"{name}.csv"
    return replace(competition, public_dir=folder, sample_submission=sample, answers=answers, holdout=0.0)


def _labelled(rows: pd.DataFrame, table: Path, targets: list[str], id_column: str | None) -> pd.DataFrame:
    for name in [*targets, *([] if id_column is None else [id_column])]:
        if name not in rows:
            hint = did_you_mean(name, map(str, rows.columns)) or f"it has {listed(rows.columns)}"
            raise CompetitionError(f"{table} has no column {name!r}; {hint}")
    if len(set(targets)) < len(targets) or id_column in targets:
        raise CompetitionError("--target names a column twice, or the ids")
    unknown = as_read(rows[targets]).isna().any(axis=1)
    names = " or ".join(map(repr, targets))
    if unknown.any():
        logger.warning("rows without %s are set aside: %s", names, first_cell(rows[targets[0]], unknown))
    if (count := int((~unknown).sum())) < LEAST_ROWS:
        raise CompetitionError(f"{table} has {count} rows with {names}: take {LEAST_ROWS} at least")
    return rows[~unknown]


def _examples(
    rows: pd.DataFrame, targets: list[str], id_column: str | None, metric: str, scoring: Metric
) -> _Examples:
    for name in targets:
        check_target(rows[name], metric, scoring.takes)
    # Tables are often sorted by the target: neither the order of the rows nor a counting id may reveal it
    rows = rows.iloc[np.random.RandomState(0).permutation(len(rows))]
    ids = _ids(rows, id_column, targets)
    goals = {name: f"`{name}`" for name in targets}
    if scoring.takes in (Takes.SCORES, Takes.ZEROS_AND_ONES):
        for name in targets:
            rows[name], meaning = zeros_and_ones(rows[name], metric)
            goals[name] += meaning
    answers, labels = make_answers(rows, targets, metric, scoring.takes)
    features = rows.drop(columns=[*targets, ids.name], errors="ignore")
    if same := [name for name in features if features[name].nunique() == 1]:
        logger.warning("columns with the same cell in all rows are left out: %s", listed(same))
    features = features.drop(columns=same)
    if features.empty:
        raise CompetitionError(f"the table has no column but {', '.join([str(ids.name), *targets])}")
    return _Examples(ids, features, rows[targets], answers, labels, list(goals.values()), scoring, ids.name in rows)


def _folds(examples: _Examples, shown: np.ndarray, groups: pd.Series | None) -> dict[str, np.ndarray]:
    """Masks of the rows that each of the [`folds`] hides."""
    masks = {}
    for number, name in enumerate(FOLDS, 1):
        hidden = shown.copy()
        if number < len(FOLDS) and shown.any():
            hidden[shown] = _share_of(examples, shown, groups, 1 / (len(FOLDS) + 1 - number))
        hidden &= ~_unseen(examples, hidden)
        masks[name], shown = hidden, shown & ~hidden
    return {name: mask for name, mask in masks.items() if mask.any()}  # there may be fewer groups


def _unseen(examples: _Examples, hidden: np.ndarray) -> np.ndarray:
    """A mask of the hidden rows whose label no other row has: a program would not have its column of probabilities."""
    label = examples.answers.to_numpy().argmax(axis=1) if examples.labels else np.zeros(len(hidden))
    return hidden & ~np.isin(label, label[~hidden])


def _share_of(examples: _Examples, rows: np.ndarray | slice, groups: pd.Series | None, share: float) -> np.ndarray:
    """A mask of this share of these rows: whole groups, or stratified by label."""
    if groups is not None:
        return whole_groups(groups[rows], share)
    return held_out_rows(examples.answers.set_index(examples.ids.to_numpy())[rows], share)


def _files(examples: _Examples, is_test: np.ndarray, folder: str) -> dict[str, pd.DataFrame]:
    labelled, ids, answers = examples.labelled, examples.ids, examples.answers
    return {
        f"{folder}/train.csv": labelled[~is_test],
        f"{folder}/test.csv": labelled[is_test].drop(columns=list(examples.targets)),
        f"{folder}/sample_submission.csv": _sample(ids[is_test], answers[~is_test], examples.scoring),
        f"private/{'test' if folder == 'public' else folder}.csv": pd.concat([ids, answers], axis=1)[is_test],
    }


def _final_files(table: Path, options: Mapping[str, Any], examples: _Examples) -> dict[str, pd.DataFrame]:
    """The files of [`final_competition`], with all labels, for a table without. Generated ids count from 0."""
    try:
        rows = read_table(table, {name: value for name, value in options.items() if name != "skipfooter"})
    except CompetitionError:  # it cannot be read without
        rows = read_table(table, options)
    id_column = str(examples.ids.name)
    features = list(examples.features)
    if missing := [name for name in [*features, *[id_column] * examples.has_own_ids] if name not in rows]:
        raise CompetitionError(f"{table} lacks {listed(missing)}, which the rows with labels have: add it")
    labelled, seen = as_read(examples.features), as_read(rows[features])
    for name in features:
        if labelled[name].dtype.kind in "iuf" and seen[name].dtype.kind not in "iufb":
            odd = seen[name].notna() & pd.to_numeric(rows[name], errors="coerce").isna()
            what = f"{name!r} holds numbers in the rows with labels, and {first_cell(rows[name], odd)} of {table}"
            raise CompetitionError(f"{what}: correct or empty it, or take --read_csv na_values=?")
    if known := [name for name in examples.targets if name in rows]:
        logger.warning("%s has %s, which is ignored", table, listed(known))
    unknown = rows if id_column in rows else rows.assign(**{id_column: range(len(rows))})
    ids = unknown[id_column]
    _check_ids(ids)
    placeholders = placeholder_answers(examples.answers, examples.scoring.takes, len(rows))
    return {
        f"{FINAL}/train.csv": examples.labelled,
        f"{FINAL}/test.csv": unknown[[id_column, *features]],
        f"{FINAL}/sample_submission.csv": _sample(ids, examples.answers, examples.scoring),
        f"private/{FINAL}.csv": pd.DataFrame({id_column: ids, **placeholders}),
    }


def _ids(rows: pd.DataFrame, id_column: str | None, targets: Sequence[str]) -> pd.Series:
    if id_column is not None:
        _check_ids(rows[id_column])
        return rows[id_column]
    for name in rows.columns.drop(list(targets)):
        if ID_NAME.search(name):
            with contextlib.suppress(CompetitionError):
                _check_ids(rows[name])
                return rows[name]
    name = "id"
    while name in rows:
        name = f"row_{name}"
    return pd.Series(range(len(rows)), rows.index, name=name)


def _check_ids(ids: pd.Series) -> None:
    same = _as_equal(ids)
    if (again := same.duplicated()).any():
        twice = same[again].iloc[0]
        texts = " and ".join(map(repr, sorted(set(ids[same == twice]))[:2]))
        raise CompetitionError(f"two rows have the {ids.name} {texts}: name a column with --id whose values differ")
    if (missing := as_read(ids.to_frame()).iloc[:, 0].isna()).any():
        raise CompetitionError(f"{ids[missing].iloc[0]!r} is no {ids.name}: programs would read it as a missing value")


def _as_equal(cells: pd.Series) -> pd.Series:
    """The cells, with one value for those that programs may read as the same, such as 01 and 1."""
    numbers = pd.to_numeric(cells, errors="coerce")
    return numbers.astype(object).where(numbers.abs() < 2**53, cells)


def _hidden(
    rows: pd.DataFrame, examples: _Examples, split: str | None, share: float, date_format: Any
) -> tuple[np.ndarray, str, pd.Series | None]:
    """A mask of the hidden rows, what the description says about them, and the groups that stay together."""
    if not 0 < share < 1:
        raise CompetitionError(f"test_share must be between 0 and 1, got {share:g}")
    if split is None:
        report_splits(examples.features)
        is_test = _share_of(examples, slice(None), None, share)
        return is_test & ~_unseen(examples, is_test), "", None
    kind, _, column = split.partition(":")
    name = clean_name(column)
    rows = rows.loc[examples.ids.index].drop(columns=list(examples.targets))
    if kind not in ("time", "group") or name not in rows:
        raise CompetitionError(f"--split must be time:COLUMN or group:COLUMN, with one of {listed(rows.columns)}")
    if kind == "group":
        groups = _as_equal(rows[name])
        return _share_of(examples, slice(None), groups, share), f"No `{name}` of test.csv is in train.csv.", groups
    times = as_times(rows[name], date_format.get(name) if isinstance(date_format, dict) else date_format)
    is_test = last_rows(times, share)
    ends = times[~is_test].max(), times[is_test].min()
    logger.warning("--split %s: train.csv ends %s, hidden rows begin %s", split, *map(moment, ends))
    return is_test, f"By `{name}`, the rows of test.csv come after those of train.csv.", None


def moment(time: Any) -> str:
    """A number, or a date as in ISO 8601."""
    return str(time).removesuffix("+00:00").removesuffix(" 00:00:00")


def _sample(ids: pd.Series, answers: pd.DataFrame, scoring: Metric) -> pd.DataFrame:
    return pd.DataFrame({str(ids.name): ids, **constant_guesses(answers, scoring, len(ids))})


def _columns(answers: pd.DataFrame, parts: Sequence[np.ndarray], split: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {"target_columns": list(answers.columns)}
    if split is not None and split.startswith("group:"):
        columns["group_column"] = clean_name(split.removeprefix("group:"))
    hidden = [answers[part] for part in parts]
    whole, *read = (set(as_read(part).select_dtypes(["number", "bool"])) for part in (answers, *hidden))
    if texts := set().union(*read) - whole:  # labels 1, 2 and x, where no hidden row has an x
        columns["text_columns"] = [name for name in answers if name in texts]
    return columns


def _description(name: str, examples: _Examples, is_test: np.ndarray, order: str, metric: str) -> str:
    features, labels, scoring = examples.features, examples.labels, examples.scoring
    sample = _sample(examples.ids[is_test], examples.answers[~is_test], scoring)
    direction = "higher" if scoring.higher_is_better else "lower"
    what = ", ".join(examples.goals)
    rule = scoring.rule_for(sample[sample.columns[1:]])
    evaluation = f"Submissions are scored by {metric_in_words(metric)}; {direction} is better. {rule}".strip()
    if labels:
        shown = ", ".join(map(str, labels[:20])) + (", …" if len(labels) > 20 else "")
        columns = f"There is a column with the probability of each label, in ascending order, as in classes_: {shown}."
        evaluation = f"{columns} {evaluation}"  # the order first: a prompt may not have room for more
    cells = {column: shortened(next(filter(None, features[column]), "")) for column in features.columns[:40]}
    data = [f"- `{column}`: such as `{cell}`." for column, cell in cells.items()]
    if (others := len(features.columns) - len(cells)) > 0:
        data.append(f"- {others} more columns.")
    return description(
        title=name,
        overview=f"Predict {what} of each row of test.csv from its other columns. {order}".strip(),
        evaluation=evaluation,
        submission="A row for each row of test.csv, in this form:",
        sample=sample,
        data="\n".join([*data, f"- {what}: to be predicted (train only)."]),
    )
