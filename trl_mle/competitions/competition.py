"""A competition as a prepared folder in MLE-bench's layout: public files and hidden answers."""

import csv
import io
import itertools
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from trl_mle.competitions.metrics import METRICS, Metric, Takes, check_row_sums
from trl_mle.competitions.split import held_out_rows


# Predictions written as one row would be a header with equal names, which pandas takes minutes to deduplicate
MAX_COLUMNS = 2000
# pandas 3.1 always reads floats exactly, and warns about the option that makes older ones do so
_EXACT = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


class CompetitionError(ValueError):
    """A competition is unknown, not prepared or not supported. It is never a submission's fault."""


class GradingFailed(RuntimeError):
    """A grader in another process failed. It is our failure, never the submission's."""


@dataclass(frozen=True)
class Score:
    """
    The grader's result for a submission.

    Args:
        value (`float`, *optional*):
            The score that training uses, to 5 decimals, on the rows that are not held out; `None` if invalid.
        valid (`bool`), error (`str`, *optional*):
            Whether the submission could be scored, and why not.
        held_out (`float`, *optional*), full (`float`, *optional*):
            The scores on the held-out rows, if any, and on all rows, as from MLE-bench's grader.
    """

    value: float | None
    valid: bool
    error: str | None = None
    held_out: float | None = None
    full: float | None = None

    def __post_init__(self) -> None:
        if self.full is None:
            object.__setattr__(self, "full", self.value)


@dataclass(frozen=True)
class Competition:
    """
    A competition: its public files, and the grader of submissions against its hidden answers.

    Args:
        id (`str`), metric (`str`):
            Names of the competition and its metric, of `METRICS` unless there is a `custom_metric`.
        public_dir (`Path`), sample_submission (`Path`):
            Folder with the files that a solution can read; a submission in the right format.
        answers (`Path`):
            The hidden labels, in the format of a submission, with or without other columns.
        target_columns (`tuple[str, ...]`):
            Columns that a submission predicts.
        id_column (`str`, *optional*, defaults to `"id"`):
            Column that matches a submission's rows with the answers'; rows with the same id in order.
        exact_columns, id_first, in_file_order (`bool`, *optional*, defaults to `False`):
            Whether a submission must have no other columns, the id first, and rows in the order of the answers'.
        row_sum_decimals (`int`, *optional*):
            Number of decimals to which a row's predictions must sum to 1, if stricter than the metric.
        group_column (`str`, *optional*), text_columns (`tuple[str, ...]`, *optional*):
            No feature, because its values differ in the test data; targets that are texts, whatever they look like.
        custom_metric ([`Metric`], *optional*):
            The metric, if it is not in `METRICS`. Any exception that it raises makes a submission invalid.
        holdout (`float`, *optional*, defaults to `0.0`):
            Share of the answers' rows that are held out for reports, at least 0 and below 1, stratified by label.
    """

    id: str
    metric: str
    public_dir: Path
    sample_submission: Path
    answers: Path
    target_columns: tuple[str, ...]
    id_column: str = "id"
    exact_columns: bool = False
    id_first: bool = False
    in_file_order: bool = False
    row_sum_decimals: int | None = None
    group_column: str | None = None
    text_columns: tuple[str, ...] = ()
    custom_metric: Metric | None = None
    holdout: float = 0.0

    # Where this package does not grade: what does, for messages, and the seconds that it may take in its process
    grader: ClassVar[str] = ""
    grading_s: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.holdout < 1:
            raise CompetitionError(f"holdout must be at least 0 and below 1, got {self.holdout}")

    @property
    def slug(self) -> str:
        """The id as a file name."""
        return path_slug(self.id)

    @property
    def scoring(self) -> Metric:
        """The facts about its metric."""
        return self.custom_metric or METRICS[self.metric]

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is better."""
        return self.scoring.higher_is_better

    def better(self, score: float, other: float) -> bool:
        """Whether a score is better than another."""
        return self.scoring.gain(score) > self.scoring.gain(other)

    @cached_property
    def rule(self) -> str:
        """Non-obvious rules for valid predictions, as a sentence; may be empty."""
        if self.scoring.takes is not Takes.LABELS:
            return self.scoring.rule
        # `_answers` holds True and False as numbers
        labels = _read_csv(self.answers, _text_columns(self._answers), nrows=100)
        return self.scoring.rule_for(labels[list(self.target_columns)])

    @property
    def description(self) -> str:
        """The text that describes the competition."""
        path = self.public_dir / "description.md"
        if not path.is_file():
            raise CompetitionError(f"{self.id!r} lacks the file {path}, the text that presents it to the model")
        return path.read_text(encoding="utf-8")

    def grade(self, submission: Path | str | bytes) -> Score:
        """
        Scores a submission. Never raises because of its content: a bad submission is data, not a failure.

        Validity is judged on all rows. Where the metric is undefined on a part of them, its `undefined` counts;
        without that, held-out rows get the score on all rows, and on the others the submission is invalid.

        Args:
            submission (`Path`, `str` or `bytes`):
                Path of a CSV file, or its content as bytes.
        """
        # Outside the try block: unreadable answers are our failure
        answers, held_out = self._answers, self._held_out
        try:
            content = submission if isinstance(submission, bytes) else Path(submission).read_bytes()
            predictions = self.predictions(content)
            full = self._score(answers, predictions)
            if held_out is None:
                return Score(full, valid=True)
            undefined = self.scoring.undefined
            value = self._score_part(~held_out, predictions, undefined)
            reported = self._score_part(held_out, predictions, full if undefined is None else undefined)
            return Score(value, valid=True, held_out=reported, full=full)
        except OSError as error:
            return invalid(f"the submission cannot be read: {error.strerror}")
        except (ValueError, csv.Error) as error:  # found below, in the metrics, and by pandas
            return invalid(str(error))
        except (OverflowError, MemoryError):
            return invalid("the submission holds a number that is too large for a float, or is too large itself")

    def predictions(self, submission: bytes) -> pd.DataFrame:
        """Predictions of a submission, one row for each answer. Raises `ValueError` if they do not fit."""
        answers, table = self._answers, _read_submission(submission, self._answers)
        wanted = [*([] if self.in_file_order else [self.id_column]), *self.target_columns]
        _require_columns(table, wanted, "the submission")
        if self.exact_columns and (extra := [name for name in table.columns if name not in wanted]):
            raise ValueError(f"the submission must have no columns but {_some(wanted)}; it also has {_some(extra)}")
        if self.id_first and table.columns[0] != self.id_column:
            raise ValueError(f"the first column must be {self.id_column!r}, not {_some(table.columns[:1])}")
        if len(table) != len(answers):
            raise ValueError(f"the submission has {len(table)} rows, but the test set has {len(answers)}")

        predictions = table[list(self.target_columns)]
        if not self.in_file_order:
            predictions = predictions.iloc[_rows_in_order_of(answers.index, pd.Index(table[self.id_column]))]
        return _predictions(predictions.set_axis(answers.index), texts=_text_columns(answers))

    def check_answers(self) -> None:
        """Raises [`CompetitionError`] if the answers cannot be graded, or the sample submission has other rows."""
        answers, _ = self._answers, self._held_out
        try:
            sample = _read_csv(self.sample_submission, _text_columns(answers))
            if len(sample) != len(answers):
                raise ValueError(f"it has {len(sample)} rows, and the answers have {len(answers)}")
            if not self.in_file_order:
                _rows_in_order_of(answers.index, pd.Index(sample[self.id_column]))
        except (ValueError, OSError) as error:
            what = f"the sample submission of {self.id!r}, {self.sample_submission}"
            raise CompetitionError(f"{what}, does not fit the answers: {_one_line(error)}") from error

    @cached_property
    def _held_out(self) -> np.ndarray | None:
        """Mask of the held-out rows of the answers, shape (rows,). Both parts must be gradable."""
        if not self.holdout:
            return None
        held_out = held_out_rows(self._answers, self.holdout)
        for what, rows in (("validation", ~held_out), ("held-out", held_out)):
            try:
                self._score(self._answers[rows], _best_predictions(self._answers[rows]))
            except ValueError as error:
                where = f"the {what} rows of {self.id!r}, {rows.sum()} of {len(rows)} with holdout {self.holdout:g}"
                raise CompetitionError(f"{where}, cannot be graded: {_one_line(error)}; set holdout: 0") from error
        return held_out

    @cached_property
    def _answers(self) -> pd.DataFrame:
        """Reads the answers, which must be gradable themselves: ROC AUC is undefined for a class that never occurs."""
        try:
            table = _read_csv(self.answers, self.text_columns)
            _require_columns(table, [self.id_column, *self.target_columns], "the file")
            labels = table[list(self.target_columns)].set_axis(table[self.id_column])
            answers = _predictions(labels, texts=_text_columns(labels))
            if self.scoring.takes is Takes.LABELS and (answers.select_dtypes("number").abs() >= 2**53).any(axis=None):
                raise ValueError("labels of more than 53 bits would be rounded: write a letter before each")
            self._score(answers, _best_predictions(answers))
        except (ValueError, TypeError, AttributeError) as error:  # the latter two: texts for numbers, or the reverse
            what = f"the answers of {self.id!r} in {self.answers}"
            raise CompetitionError(f"{what} cannot be graded: {_one_line(error)}") from error
        return answers

    def _score_part(self, rows: np.ndarray, predictions: pd.DataFrame, undefined: float | None) -> float:
        """The score on a part of the rows, for predictions that are valid on all rows."""
        try:
            return self._score(self._answers[rows], predictions[rows])
        except ValueError:
            if undefined is None:
                raise
            return undefined

    def _score(self, answers: pd.DataFrame, predictions: pd.DataFrame) -> float:
        with np.errstate(all="ignore"):  # an overflow shows in the score
            if self.custom_metric is None:
                value = METRICS[self.metric].score(answers, predictions)
            else:
                try:
                    value = float(self.custom_metric.score(answers.copy(), predictions.copy()))  # it may change them
                except Exception as error:  # it is the user's metric, which worked on the answers
                    raise ValueError(f"{self.metric} fails with {type(error).__name__}: {error}") from error
        if self.row_sum_decimals is not None:
            check_row_sums(predictions, predictions.sum(axis=1).round(self.row_sum_decimals).to_numpy() == 1)
        if not math.isfinite(value):
            raise ValueError(f"the score is {value}")
        return round(value, 5)


def path_slug(competition_id: str) -> str:
    """A competition's id as a file name."""
    return re.sub(r"[^\w.-]+", "-", competition_id, flags=re.ASCII).strip("-.")


def user_cache_dir() -> Path:
    """The platform's folder for a user's caches: `$XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def invalid(error: str) -> Score:
    """The score of an invalid submission; the reason is one short line, for logs and prompts."""
    return Score(None, valid=False, error=" ".join(error.split())[:300])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _best_predictions(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers; those without words are no predictions, see `word_level_jaccard`."""
    return answers.replace(r"^\s*$", "word", regex=True)


def _require_columns(table: pd.DataFrame, wanted: list[str], what: str) -> None:
    if missing := [name for name in wanted if name not in table.columns]:
        raise ValueError(f"{what} lacks the columns {_some(missing)}; it has {_some(table.columns)}")


def _rows_in_order_of(wanted: pd.Index, ids: pd.Index) -> np.ndarray | slice:
    """Positions in `ids` of the `wanted` ids. The n-th occurrences of repeated ids match, as in MLE-bench."""
    if ids.equals(wanted):
        return slice(None)
    known = wanted if wanted.is_unique else wanted.unique()  # the answers keep their hash table
    wanted_codes, codes = known.get_indexer(wanted), known.get_indexer(ids)
    if len(unknown := ids[codes < 0]):
        raise ValueError(f"{len(unknown)} of {len(ids)} ids are not in the test set: {_some(unknown)}")
    if len(repeated := known[np.bincount(codes, minlength=len(known)) > np.bincount(wanted_codes)]):
        raise ValueError(f"ids must be unique, but these are repeated: {_some(repeated)}")
    positions = np.empty_like(codes)
    positions[np.argsort(wanted_codes, kind="stable")] = np.argsort(codes, kind="stable")
    return positions


def _text_columns(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]


def _predictions(table: pd.DataFrame, texts: list[str]) -> pd.DataFrame:
    """The columns as texts, which may be empty, or as finite floats."""
    columns: dict[str, pd.Series] = {}
    for name in table.columns:
        column = table[name]
        if name in texts:
            columns[name] = column.astype(object).map(str).where(column.notna(), "")
        elif pd.api.types.is_numeric_dtype(column):
            columns[name] = column.astype(float)
            if not np.isfinite(columns[name].to_numpy()).all():
                raise ValueError(
                    f"every prediction must be a finite number, but {name!r} has empty, NaN or infinite values"
                )
        else:
            wrong = column[pd.to_numeric(column, errors="coerce").isna() & column.notna()]
            raise ValueError(f"column {name!r} must hold numbers, but holds {_some(column if wrong.empty else wrong)}")
    return pd.DataFrame(columns, index=table.index)


def _read_submission(content: bytes, answers: pd.DataFrame) -> pd.DataFrame:
    # Grading takes time and memory of the training. Quoted text may contain commas and line ends
    rows, columns = answers.shape
    lines = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    for what, count, most in (
        ("bytes", len(content), 16_000_000 + rows * (4096 + 64 * columns)),
        ("lines", lines, 100 * (rows + 10)),
        ("commas", content.count(b","), 2_000_000 + rows * (100 + 2 * columns)),
    ):
        if count > most:
            raise ValueError(f"the submission has {count} {what}, but {rows} rows were expected")
    if lines > content.count(b"\n"):  # after a line that ends with a bare carriage return, pandas loses commas
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # The header and the first row, as pandas reads them: other rows have no more columns
    records = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline=""))
    filled = (record for record in records if len(record) > 1 or "".join(record).strip(" \t"))
    if max(map(len, itertools.islice(filled, 2)), default=0) > MAX_COLUMNS:
        raise ValueError(f"the submission has a line of more than {MAX_COLUMNS} columns; write one row for each id")
    return _read_csv(io.BytesIO(content), _text_columns(answers))


def _read_csv(source: Path | io.BytesIO, texts: Iterable[str] = (), nrows: int | None = None) -> pd.DataFrame:
    dtype = dict.fromkeys(texts, str)  # where all cells look like numbers, pandas would make 1 of 01
    # low_memory would infer types per chunk, so that one column could have several
    return pd.read_csv(source, dtype=dtype, low_memory=False, nrows=nrows, **_EXACT)  # type: ignore[call-overload]


def _some(values: Iterable[object]) -> str:
    """The first few values, shortened, because a submission may hold anything of any length."""
    values = list(values)
    shown = ", ".join(f"{value!r:.40}" for value in values[:4])
    return shown + ", …" * (len(values) > 4)
