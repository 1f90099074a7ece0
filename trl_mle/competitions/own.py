"""Makes the user's own competition from a table: `trl-mle new train.csv --target price --metric rmse`."""

import io
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from pandas.api.types import is_numeric_dtype

from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.loading import load_competition
from trl_mle.competitions.metrics import Metric, Takes, find_metric
from trl_mle.competitions.prepared import csv_text, description, write_file
from trl_mle.competitions.repository import CONFIG
from trl_mle.competitions.split import held_out_rows, is_measured
from trl_mle.showing import metric_in_words


logger = logging.getLogger(__name__)

LEAST_ROWS = 20
LEAST_OTHERS = 5  # rows without the most frequent label; with fewer, a column may determine the labels by chance
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
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
) -> Competition:
    """
    Makes a competition from a labelled table: a part of the rows, stratified by label, becomes the test set.

    Args:
        table (`Path`), test (`Path`, *optional*):
            CSV files with a row for each example, with and without labels. Cells are copied unchanged. The latter's rows,
            with all of the former, become the folder `final/`, see [`final_competition`].
        targets (`Sequence[str]`), id_column (`str`, *optional*):
            Columns: those to predict (for probabilities, one of labels), and that of unique ids, by default `id`, which is
            made if missing.
        metric (`str`), higher_is_better (`bool`, *optional*):
            As in [`~trl_mle.competitions.metrics.find_metric`]. Whether a function of your own compares labels or numbers
            is found from the targets, and written into `competition.yaml`.
        folder (`Path`):
            Folder to write, which must not exist yet; its name is the competition's.
        test_share (`float`, *optional*, defaults to `0.25`):
            Share of the rows whose labels to hide.

    Raises:
        [`CompetitionError`], `FileExistsError`, `FileNotFoundError`: The table cannot become a competition.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists: name another folder with --to")
    try:
        known = find_metric(metric, higher_is_better)
    except ValueError as error:
        raise CompetitionError(str(error)) from error
    if not 0 < test_share < 1:
        raise CompetitionError(f"test_share must be between 0 and 1, got {test_share:g}")
    rows = _read(table, targets, id_column)
    # Tables are often sorted by the target: neither the order of the rows nor a counting id may reveal it
    rows = rows.iloc[np.random.RandomState(0).permutation(len(rows))].reset_index(drop=True)
    ids, id_column = _ids(rows, id_column)
    if higher_is_better is not None:
        known = known._replace(takes=what_it_takes(rows[list(targets)]))
    answers, labels = _answers(rows, targets, metric, known.takes)
    is_test = held_out_rows(answers.set_index(ids.to_numpy()), test_share)
    if not is_test.any() or is_test.all():
        raise CompetitionError(
            f"{is_test.sum()} of {len(rows)} rows with test_share {test_share:g}: take another share"
        )
    features = rows.drop(columns=[*targets, id_column], errors="ignore")
    if features.empty or not len(features.columns):
        raise CompetitionError(
            f"{table} has no column but {', '.join([id_column, *targets])}: there is nothing to predict from"
        )
    cells = pd.concat([ids, features], axis=1)
    _report_telling_columns(cells if id_column in rows else features, rows[list(targets)])
    sample = pd.DataFrame({id_column: ids[is_test], **constant_guesses(answers[~is_test], known, int(is_test.sum()))})
    labelled = pd.concat([cells, rows[list(targets)]], axis=1)
    shown = {
        "public/train.csv": labelled[~is_test],
        "public/test.csv": cells[is_test],
        "public/sample_submission.csv": sample,
        "private/test.csv": pd.concat([ids, answers], axis=1)[is_test],
    }
    if test is not None:
        unknown = _test_rows(test, list(features.columns), id_column, is_made=id_column not in rows)
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
        text = _description(folder.name, sample, features, targets, labels, metric, known)
        write_file(staged / "public" / "description.md", text)
        if test is not None:
            shutil.copy(staged / "public" / "description.md", staged / FINAL)
        layout: dict[str, Any] = {
            "id": folder.name,
            "metric": metric,
            "id_column": id_column,
            "target_columns": list(answers.columns),
        }
        if higher_is_better is not None:
            layout |= {"higher_is_better": higher_is_better, "takes": str(known.takes)}
        competition = write_config(staged, layout, targets)
        score = competition.grade(competition.sample_submission)
        if not score.valid:
            raise CompetitionError(
                f"{metric} cannot score a constant guess of {', '.join(targets)}: {score.error}; make the competition with "
                f"another metric, then write metric: {metric} into {CONFIG}"
            )
        shutil.move(staged, folder)
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


def _cells(table: Path) -> pd.DataFrame:
    """Reads all cells as text, so that they are written unchanged."""
    if not table.is_file():
        raise FileNotFoundError(f"there is no table {table}")
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            rows = pd.read_csv(table, dtype=str, keep_default_na=False, index_col=False)
    except UnicodeDecodeError as error:
        raise CompetitionError(f"{table} is not in UTF-8: save it as CSV in UTF-8") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise CompetitionError(
            f"{table} is not a CSV file: {' '.join(str(error).split())}" + _separator(table)
        ) from error
    except pd.errors.ParserWarning as error:
        raise CompetitionError(
            f"{table} has rows with more cells than its header has names" + _separator(table)
        ) from error
    _check_names(table, rows)
    # The index as written by `to_csv`, which may reveal the original order of the rows, or nothing at all
    index = [
        name
        for name in rows.columns
        if re.fullmatch(r"Unnamed: \d+", name) and (rows[name].str.fullmatch(r"\d+").all() or not rows[name].any())
    ]
    return rows.drop(columns=index)


def _check_names(table: Path, rows: pd.DataFrame) -> None:
    """Rejects a first line that is no header, and names that occur twice, which pandas would number."""
    names = pd.read_csv(table, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    if _looks_like_data(names, rows):
        raise CompetitionError(
            f"the first line of {table} looks like data ({names[0]!r}, say): write a line with the columns' names above it"
        )
    if (twice := names[names.duplicated() & (names != "")]).any():
        raise CompetitionError(
            f"{table} has two columns named {twice.iloc[0]!r}: leave one out, or rename it if it holds something else"
        )


def _looks_like_data(names: pd.Series, rows: pd.DataFrame) -> bool:
    """Whether numbers stand above all numbers, and labels above all labels."""
    numbers = []
    is_label = False
    for name, number, (_, cells) in zip(names, pd.to_numeric(names, errors="coerce"), rows.items(), strict=True):
        known = cells[cells != ""]
        if len(known) and pd.to_numeric(known, errors="coerce").notna().all():
            if np.isnan(number):
                return False
            numbers.append(number)
        elif known.nunique() <= len(rows) / 2:
            if name not in known.array:
                return False
            is_label = True
    # Years and the positions of pixels are names
    return is_label or (len(numbers) > 0 and not (len(numbers) > 1 and bool((np.diff(numbers) > 0).all())))


def _seen(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells as programs see them: as pandas reads them from a file."""
    return pd.read_csv(io.StringIO(csv_text(cells)), low_memory=False, skip_blank_lines=False)


def _report_telling_columns(known: pd.DataFrame, targets: pd.DataFrame) -> None:
    """Warns of columns that determine a target: they may have been made from it."""
    known, targets = _seen(known), _seen(targets)
    for target in targets:
        telling = [repr(name) for name in known if determines(known[name], targets[target])]
        if telling:
            shown = ", ".join(telling[:5]) + (", …" if len(telling) > 5 else "")
            logger.warning(
                "each of these columns determines %r exactly: %s; leave out those that are not known before it is",
                target, shown,
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


def _separator(table: Path) -> str:
    """The end of an error about a table that is separated by something other than commas, else empty."""
    with table.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    most = max(SEPARATORS, key=header.count)
    if header.count(most) <= header.count(","):
        return ""
    return f"; it looks separated by {SEPARATORS[most]}: write it with commas"


def _test_rows(table: Path, columns: Sequence[str], id_column: str, is_made: bool) -> pd.DataFrame:
    """The unlabelled rows, with the same columns as the others; generated ids count from 0."""
    rows = _cells(table)
    if missing := [name for name in [*columns, *[id_column] * (not is_made)] if name not in rows]:
        raise CompetitionError(
            f"{table} has no column {missing[0]!r}, which the rows with labels have" + _separator(table)
        )
    if len(rows) < 2:  # correlations and areas under a curve need two
        raise CompetitionError(f"{table} has {len(rows)} rows: take 2 at least")
    if is_made and id_column not in rows:
        rows[id_column] = range(len(rows))
    _check_ids(rows[id_column])
    return rows[[id_column, *columns]]


def _read(table: Path, targets: Sequence[str], id_column: str | None) -> pd.DataFrame:
    rows = _cells(table)
    for name in [*targets, *([id_column] if id_column is not None else [])]:
        if name not in rows:
            columns = ", ".join(map(repr, rows.columns[:20]))  # so that an invisible character shows
            raise CompetitionError(f"{table} has no column {name!r}; it has {columns}" + _separator(table))
    if len(set(targets)) < len(targets) or id_column in targets:
        raise CompetitionError("--target names a column twice, or the ids")
    if len(rows) < LEAST_ROWS:
        raise CompetitionError(f"{table} has {len(rows)} rows: take {LEAST_ROWS} at least")
    seen = _seen(rows[list(targets)])
    for name in targets:
        if empty := int((rows[name].str.strip() == "").sum()):
            raise CompetitionError(f"{empty} of {len(rows)} rows have no {name!r}: leave them out of {table}")
        missing = seen[name].isna()
        if missing.any():
            raise CompetitionError(
                f"{missing.sum()} of {len(rows)} rows have the {name!r} {rows[name][missing].iloc[0]!r}, which programs would "
                "read as a missing value: write a label in other words, and leave out rows without one"
            )
    return rows


def _ids(rows: pd.DataFrame, id_column: str | None) -> tuple[pd.Series, str]:
    name = id_column or "id"
    if name in rows:
        _check_ids(rows[name])
        return rows[name], name
    return pd.Series(range(len(rows)), name=name), name


def _check_ids(ids: pd.Series) -> None:
    # Programs read numbers where a file, or the part of it that they are given, holds only numbers: 01 is 1
    numbers = pd.to_numeric(ids, errors="coerce")
    same = numbers.astype(object).where(numbers.abs() < 2**53, ids)
    if (again := same.duplicated()).any():
        twice = same[again].iloc[0]
        texts = " and ".join(map(repr, sorted(set(ids[same == twice]))[:2]))
        raise CompetitionError(f"two rows have the {ids.name} {texts}: name a column with --id whose values differ")
    if (missing := _seen(ids.to_frame()).iloc[:, 0].isna().to_numpy()).any():
        raise CompetitionError(f"{ids[missing].iloc[0]!r} is no {ids.name}: programs would read it as a missing value")


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
        seen = _seen(rows[list(targets)])[targets[0]]
        labels = sorted(seen.unique().tolist())
        if not 2 <= len(labels) <= len(rows) / 4:
            raise CompetitionError(
                f"{targets[0]!r} has {len(labels)} different values: those are no labels for {metric}"
            )
        return pd.DataFrame({f"{targets[0]}_{label}": (seen == label).astype(int) for label in labels}), labels
    columns = {}
    for name in targets:
        numbers = pd.to_numeric(rows[name], errors="coerce")
        _check_values(rows[name], numbers, metric, takes)
        is_whole = (numbers % 1 == 0).all() and numbers.abs().max() < 2**53
        is_text = takes is Takes.TEXTS or numbers.isna().any()
        columns[name] = rows[name] if is_text else numbers.astype(int) if is_whole else numbers
    return pd.DataFrame(columns), []


def _check_values(cells: pd.Series, numbers: pd.Series, metric: str, takes: Takes) -> None:
    are_texts = numbers.isna()
    if takes in (Takes.SCORES, Takes.ZEROS_AND_ONES):
        _check_zeros_and_ones(cells, numbers, metric)
    elif takes is Takes.TEXTS and not are_texts.any():
        raise CompetitionError(f"{metric} compares texts, and {cells.name!r} holds {cells.iloc[0]!r}")
    elif takes is Takes.NUMBERS and are_texts.any():
        raise CompetitionError(
            f"{metric} needs numbers, and {cells.name!r} holds {cells[are_texts].iloc[0]!r}: take accuracy, f1_macro or "
            "log_loss for labels"
        )
    elif takes is Takes.LABELS and not are_texts.any():
        is_whole = numbers % 1 == 0
        if not is_whole.all() or numbers.nunique() > len(cells) / 2:
            raise CompetitionError(
                f"{cells.name!r} looks continuous ({cells.iloc[is_whole.argmin()]}, say), and {metric} is for labels: take "
                "rmse, mae or r2"
            )


def _check_zeros_and_ones(cells: pd.Series, numbers: pd.Series, metric: str) -> None:
    if set(numbers.unique()) == {0, 1}:
        return
    values = [repr(value) for value in sorted(cells.unique())]
    if len(values) == 2:
        raise CompetitionError(
            f"{metric} needs 0 and 1 in {cells.name!r}: write 0 for {values[0]} and 1 for {values[1]}, or the other way round"
        )
    raise CompetitionError(
        f"{metric} needs 0 and 1 in {cells.name!r}, which holds {', '.join(values[:3])}, say: take log_loss for labels, or "
        "rmse for measurements"
    )


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
    targets: Sequence[str],
    labels: Sequence[Any],
    metric: str,
    known: Metric,
) -> str:
    direction = "higher" if known.higher_is_better else "lower"
    what = ", ".join(f"`{target}`" for target in targets)
    rule = known.rule_for(texts=not all(is_numeric_dtype(sample[name]) for name in sample.columns[1:]))
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
        overview=f"Predict {what} of each row of test.csv from its other columns.",
        evaluation=evaluation,
        submission="A row for each row of test.csv, in this form:",
        sample=sample,
        data=data,
    )


def _example(column: pd.Series) -> str:
    known = column[column != ""]
    text = "" if known.empty else " ".join(known.iloc[0].split())
    return text if len(text) <= 40 else text[:40] + "…"
