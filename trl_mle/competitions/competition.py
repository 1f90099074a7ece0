"""A competition as a folder that MLE-bench has prepared, or that looks like one: public files, hidden answers."""

import io
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from trl_mle.competitions.metrics import METRICS


# Far more than any submission needs. Predictions written as one row would be a header of many equal names, which pandas
# needs minutes to tell apart.
MAX_COLUMNS = 2000

# pandas 3.1 always does, and warns about the option that makes older ones do so.
_READS_FLOATS_EXACTLY = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)


class CompetitionError(ValueError):
    """A competition that is unknown, not prepared or not supported: the user's to mend, never a submission's fault."""


@dataclass(frozen=True)
class Score:
    """
    What the grader says about a submission.

    Args:
        value (`float`, *optional*):
            The competition's score, rounded to 5 decimals; `None` for an invalid submission.
        valid (`bool`):
            Whether the submission could be scored.
        error (`str`, *optional*):
            One sentence that says why it could not.
    """

    value: float | None
    valid: bool
    error: str | None = None


@dataclass(frozen=True)
class Competition:
    """
    A competition: its public files, and how submissions are graded against its hidden answers.

    Args:
        id (`str`):
            Name of the competition.
        metric (`str`):
            Name of its metric, a key of `trl_mle.competitions.metrics.METRICS`.
        public_dir (`Path`):
            Folder with the files that a solution may read.
        sample_submission (`Path`):
            A submission in the right format.
        answers (`Path`):
            The hidden labels, in the form of a submission. Only the grader reads them.
        target_columns (`tuple[str, ...]`):
            Columns that a submission predicts.
        id_column (`str`, *optional*, defaults to `"id"`):
            Column that matches a submission's rows with the answers', whatever their order.
        exact_columns (`bool`, *optional*, defaults to `False`):
            Whether a submission may hold no columns but these.
        id_first (`bool`, *optional*, defaults to `False`):
            Whether the id must be a submission's first column.
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

    @property
    def slug(self) -> str:
        """The id without ":", for paths and the Hub."""
        return self.id.replace(":", "-")

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is better."""
        return METRICS[self.metric].higher_is_better

    @property
    def description(self) -> str:
        """The text that presents the competition."""
        return (self.public_dir / "description.md").read_text(encoding="utf-8")

    def grade(self, submission: Path | str | bytes) -> Score:
        """
        Score a submission. Whatever it holds, this does not raise: a bad submission is data, not a failure.

        Args:
            submission (`Path`, `str` or `bytes`):
                Path of a csv file, or its content as bytes.

        Returns:
            [`Score`]: The score, or the reason why there is none.
        """
        answers = self._answers  # outside of the try: answers that cannot be read are our failure
        try:
            content = submission if isinstance(submission, bytes) else Path(submission).read_bytes()
            predictions = self._align(_read_submission(content, len(answers)), answers)
            with np.errstate(all="ignore"):  # an overflow shows in the score
                value = round(METRICS[self.metric].score(answers, predictions), 5)
        except OSError as error:
            return _invalid(f"the submission cannot be read: {error.strerror}")
        except pd.errors.EmptyDataError:
            return _invalid("the submission is empty")
        except UnicodeDecodeError:
            return _invalid("the submission is not UTF-8 text")
        except pd.errors.ParserError as error:
            return _invalid(f"the submission is not a csv file: {error}")
        except ValueError as error:  # what is found wrong below, in the metrics, and by pandas
            return _invalid(str(error))
        except OverflowError:
            return _invalid("the submission holds a number that is too large for a float")
        except MemoryError:
            return _invalid("the submission is too large")
        if not math.isfinite(value):
            return _invalid(f"the score is {value}")
        return Score(value, valid=True)

    @cached_property
    def _answers(self) -> pd.DataFrame:
        return _read_csv(self.answers).set_index(self.id_column)[list(self.target_columns)]

    def _align(self, table: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
        """The submission's predictions as floats, in the rows and columns of the answers."""
        wanted = [self.id_column, *self.target_columns]
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise ValueError(f"the submission lacks the columns {_some(missing)}; it has {_some(table.columns)}")
        extra = [name for name in table.columns if name not in wanted]
        if self.exact_columns and extra:
            raise ValueError(f"the submission must have no columns but {_some(wanted)}; it also has {_some(extra)}")
        if self.id_first and table.columns[0] != self.id_column:
            raise ValueError(f"the first column must be {self.id_column!r}, not {table.columns[0]!r}")

        ids = pd.Index(table[self.id_column])
        if len(ids) != len(answers):
            raise ValueError(f"the submission has {len(ids)} rows, but the test set has {len(answers)}")
        if ids.has_duplicates:
            raise ValueError(f"ids must be unique, but these are repeated: {_some(ids[ids.duplicated()])}")
        positions = answers.index.get_indexer(ids)
        unknown = ids[positions < 0]
        if len(unknown):
            raise ValueError(f"{len(unknown)} of {len(ids)} ids are not in the test set: {_some(unknown)}")

        predictions = table[list(self.target_columns)]
        for name, column in predictions.items():
            if not pd.api.types.is_numeric_dtype(column):
                text = column[pd.to_numeric(column, errors="coerce").isna() & column.notna()]
                raise ValueError(f"column {name!r} must hold numbers, but holds {_some(text)}")
        predictions = predictions.iloc[np.argsort(positions)].set_axis(answers.index, axis=0).astype(float)
        finite = np.isfinite(predictions.to_numpy()).all(axis=0)
        if not finite.all():
            raise ValueError(
                f"every prediction must be a finite number, but these columns hold empty, NaN or infinite values: "
                f"{_some(predictions.columns[~finite])}"
            )
        return predictions


def user_cache_dir() -> Path:
    """The platform's folder for a user's caches: `$XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _read_submission(content: bytes, rows: int) -> pd.DataFrame:
    # Before anything is made of it: the grader runs in the training process, which a huge file must not take down. A
    # text in quotes may have lines of its own.
    lines = content.count(b"\n")
    if lines > 100 * (rows + 10):
        raise ValueError(f"the submission has {lines} lines, but {rows} rows were expected")
    columns = 1 + max((line.count(b",") for line in content.splitlines()), default=0)
    if columns > MAX_COLUMNS:
        raise ValueError(f"the submission has a line of {columns} columns; write one row for each id")
    return _read_csv(io.BytesIO(content))


def _read_csv(source: Path | io.BytesIO) -> pd.DataFrame:
    # low_memory would infer types chunk by chunk, and one column could come back with several.
    if _READS_FLOATS_EXACTLY:
        return pd.read_csv(source, low_memory=False)
    return pd.read_csv(source, low_memory=False, float_precision="round_trip")


def _invalid(error: str) -> Score:
    # One line of bounded length, since it ends up in logs and prompts.
    return Score(None, valid=False, error=" ".join(error.split())[:300])


def _some(values: Iterable[object]) -> str:
    """The first few values, shortened: a submission may hold anything, and in any length."""
    values = list(values)
    shown = [text if len(text) <= 40 else f"{text[:40]}…" for text in map(repr, values[:4])]
    return ", ".join([*shown, "…"] if len(values) > 4 else shown)
