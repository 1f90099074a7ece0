"""Chooses which program of an own table predicts the rows without labels."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from time import monotonic

import pandas as pd

from trl_mle.competitions import Competition, Score
from trl_mle.competitions.competition import invalid
from trl_mle.competitions.own import folds
from trl_mle.competitions.prepared import csv_text
from trl_mle.evaluation.results import of_different_scores, score_of
from trl_mle.execution import Executor, Outcome, SandboxError
from trl_mle.files import write_whole
from trl_mle.rewards import Evaluation
from trl_mle.showing import PlainConsole, terminal_line


BEST = 8  # programs that run on the folds (docs/results.md)
MOST_AGAIN = 3  # programs that may fail with all labels, in one call of `choose`


class Chooser:
    """
    Runs programs again, each once: on the folds of a competition that [`~trl_mle.competitions.own.new_competition`]
    made with unlabelled rows, and finally with all labels.

    Args:
        competition ([`Competition`]), final ([`Competition`]):
            That of the search, and the one with the unlabelled rows.
        executor ([`~trl_mle.execution.Executor`]), console (`PlainConsole`):
            Runs the programs; gets a line for each that is skipped.
        path (`Path`):
            File that keeps the scores on the folds.
    """

    def __init__(
        self, competition: Competition, final: Competition, executor: Executor, console: PlainConsole, path: Path
    ):
        self.final, self.gain, self.folds = final, competition.scoring.gain, folds(competition)
        self.executor, self.console, self.path = executor, console, path
        # On the hidden rows and the folds; empty if a run has failed
        self.scores: dict[str, list[float]] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        self.spent_s = 0.0  # with runs on folds
        self.submissions: dict[str, bytes | None] = {}  # with all labels; `None` if it was invalid

    def choose(self, programs: Sequence[Evaluation], has_time: Callable[[], bool]) -> tuple[Evaluation, bytes] | None:
        """Chooses among valid programs, the best on the hidden rows first. While there is time, the first few run on
        the folds, and are ordered by their mean score. Returns the first that is valid with all labels, and its
        submission, or `None` if several have failed. Those that we failed run again in the next call."""
        failed = 0
        self._run_on_folds(of_different_scores(programs)[:BEST], has_time)
        for place, evaluation in enumerate(self.ordered(programs), 1):
            source = evaluation.source or ""
            if source not in self.submissions and failed < MOST_AGAIN:
                try:
                    [(score, submission)] = run_again(self.executor, source, [self.final])
                    self.submissions[source] = submission if score.valid else None
                except SandboxError as error:
                    score = invalid(str(error))
                if not score.valid:
                    failed += 1
                    what = terminal_line(score.error or "")
                    note = f"number {place} of {len(programs)} is skipped: when run again, {what}"
                    self.console.print(note, soft_wrap=True)
            if submission := self.submissions.get(source):
                return evaluation, submission
        return None

    def ordered(self, programs: Sequence[Evaluation]) -> list[Evaluation]:
        """Programs in the order in which they are chosen: those with scores on folds, then the others as they are."""
        losses = {source: -self.gain(fmean(scores)) for source, scores in self.scores.items() if scores}
        return sorted(programs, key=lambda evaluation: losses.get(evaluation.source or "", math.inf))

    def _run_on_folds(self, programs: Sequence[Evaluation], has_time: Callable[[], bool]) -> None:
        for evaluation in programs if self.folds else ():
            source = evaluation.source or ""
            if source not in self.scores and has_time():
                began = monotonic()
                with suppress(SandboxError):
                    on_folds = [score.value for score, _ in run_again(self.executor, source, self.folds)]
                    values = [value for value in (score_of(evaluation), *on_folds) if value is not None]
                    self.scores[source] = values if len(values) == 1 + len(self.folds) else []
                    write_whole(self.path, json.dumps(self.scores).encode())
                self.spent_s += monotonic() - began


def run_again(executor: Executor, source: str, comps: Sequence[Competition]) -> list[tuple[Score, bytes | None]]:
    """The scores and the submissions of a program in several competitions. Raises `SandboxError` if our
    infrastructure failed twice."""
    results = executor.run_many([(source, competition) for competition in comps])
    scores: list[tuple[Score, bytes | None]] = []
    for result, competition in zip(results, comps, strict=True):
        if result.outcome == Outcome.INFRASTRUCTURE:
            [result] = executor.run_many([(source, competition)])
        if result.outcome == Outcome.INFRASTRUCTURE:
            raise SandboxError(f"our infrastructure failed: {result.detail}")
        if result.outcome == Outcome.OK and result.submission is not None:
            scores.append((competition.grade(result.submission), result.submission))
        else:
            scores.append((invalid(result.detail or "no submission.csv was written"), None))
    return scores


def like_sample(submission: bytes, competition: Competition) -> bytes:
    """A valid submission with the ids of the sample, which a program may have read as numbers, and in its order,
    unless ids are not unique, or MLE-bench's code reads submissions."""
    if competition.in_file_order or competition.grader:
        return submission
    as_read = pd.read_csv(competition.sample_submission)
    ids = as_read[competition.id_column]
    if not ids.is_unique:
        return submission
    table = competition.predictions(submission).apply(_whole).reindex(ids)  # labels were read as floats
    truth_values = as_read.select_dtypes("bool").columns.intersection(list(competition.target_columns))
    table = table.astype(dict.fromkeys(truth_values, bool))
    sample = pd.read_csv(competition.sample_submission, dtype=str, keep_default_na=False)
    columns = {name: table[name].to_numpy() for name in competition.target_columns}
    return csv_text(sample.assign(**columns)).encode()


def _whole(values: pd.Series) -> pd.Series:
    is_whole = values.dtype == float and (values % 1 == 0).all() and values.abs().max() < 2**53
    return values.astype(int) if is_whole else values
