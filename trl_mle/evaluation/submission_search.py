"""Finds one good submission: searches by a score that does not use the hidden answers, chooses, and averages."""

import random
import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.competitions.prepared import csv_text
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.sample_log import Sample
from trl_mle.evaluation.self_improvement import validation_score
from trl_mle.evaluation.tree_search import ask_to_validate
from trl_mle.execution import ExecutionResult, Executor, Outcome
from trl_mle.rewards import Evaluation
from trl_mle.showing import PlainConsole, terminal_line


IMPROVED = 4  # number of best programs to improve
ROUND = "solve"
Worth = Callable[[Evaluation, Competition], float | None]


def held_out_score(evaluation: Evaluation, competition: Competition) -> float | None:
    """The score on the user's own rows whose labels the program has not seen."""
    return evaluation.score.value if evaluation.score is not None else None


def search(
    harness: Harness, budget_s: float, console: PlainConsole, worth: Worth = validation_score
) -> list[Evaluation]:
    """
    Samples and executes programs in batches until the time is up (including an earlier interrupted run), at least one batch.
    After the first batch, half of each batch is written from scratch, and half improves one of the best programs so far.
    """
    competition, log = harness.competition, harness.log
    evaluations: list[Evaluation] = []
    while True:
        samples = [Sample(competition.id, ROUND, len(evaluations) + i) for i in range(harness.batch_size)]
        if evaluations and log.now() >= budget_s and samples[0] not in log.written:
            break
        if samples[0] not in log.written or any(sample not in log.evaluations for sample in samples):
            console.print(_progress(evaluations, competition, log.now(), budget_s, worth), soft_wrap=True)
        best = ranked(evaluations, competition, worth)[:IMPROVED]
        scratch = samples[: len(samples) // 2] if best else samples
        harness.write(scratch, [ask_to_validate(harness.scratch_prompt())] * len(scratch), "scratch")
        improved = samples[len(scratch) :]
        parents = [random.Random(f"{harness.seed}-{sample.index}").choice(best) for sample in improved]
        harness.write(
            improved,
            [ask_to_validate(harness.improve_prompt(parent)) for parent in parents],
            "improve",
            [evaluations.index(parent) for parent in parents],
        )
        evaluations += harness.execute(samples)
    console.print(_progress(evaluations, competition, log.now(), budget_s, worth), soft_wrap=True)
    return evaluations


def ranked(
    evaluations: Sequence[Evaluation], competition: Competition, worth: Worth = validation_score
) -> list[Evaluation]:
    """Valid programs without duplicates, best first; programs without a score come last."""
    valid: dict[str | None, Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.valid:
            valid.setdefault(evaluation.source, evaluation)

    def key(evaluation: Evaluation) -> tuple[bool, float]:
        score = worth(evaluation, competition)
        return score is not None, competition.scoring.gain(score) if score is not None else 0.0

    return sorted(valid.values(), key=key, reverse=True)


def run_again(
    programs: Sequence[Evaluation], competition: Competition, executor: Executor, count: int, console: PlainConsole
) -> list[tuple[Evaluation, bytes]]:
    """
    Runs programs again, best first, until `count` of them are valid again, and returns these with their submissions. A
    program that fails because of our infrastructure is tried once more.

    Raises:
        `ValueError`: No program is valid again.
    """
    if not programs:
        raise ValueError("no program made a valid submission: give it more time (--budget), or use another policy")
    found: list[tuple[Evaluation, bytes]] = []
    why = ""
    for place, evaluation in enumerate(programs, 1):
        if len(found) == count:
            break
        result = _executed(evaluation.source or "", competition, executor)
        if result.outcome == Outcome.INFRASTRUCTURE:
            result = _executed(evaluation.source or "", competition, executor)
        why = result.detail or "no submission.csv was written"
        if result.outcome == Outcome.OK and result.submission is not None:
            score = competition.grade(result.submission)
            if score.valid:
                found.append((evaluation, result.submission))
                continue
            why = score.error or ""
        console.print(
            f"number {place} of {len(programs)} is skipped: when run again, {terminal_line(why)}", soft_wrap=True
        )
    if not found:
        raise ValueError(f"none of {len(programs)} programs was valid when run again; the last one: {why}")
    return found


def _executed(source: str, competition: Competition, executor: Executor) -> ExecutionResult:
    [result] = executor.run_many([(source, competition)])
    return result


def average(submissions: Sequence[bytes], competition: Competition) -> bytes:
    """
    The average of valid submissions, by what their metric says: their mean, the mean of their ranks, or what most of them
    predict for a row (of a tie, the first submission's). A single submission stays as it is. The ids are in the sample's
    order if they are unique.
    """
    sample = pd.read_csv(competition.sample_submission, dtype=str, keep_default_na=False)
    ids = None if competition.in_file_order else pd.read_csv(competition.sample_submission)[competition.id_column]
    keeps_ids = ids is not None and ids.is_unique
    if len(submissions) == 1 and (not keeps_ids or competition.grader):
        return submissions[0]
    predictions = [competition.predictions(content) for content in submissions]
    how = competition.scoring.averaged_by
    if len(predictions) == 1 or how == "vote":
        votes = pd.concat(predictions, axis=1)
        table = pd.DataFrame({name: _most_frequent(votes[[name]].to_numpy()) for name in predictions[0]})
        table = table.set_axis(predictions[0].index).apply(_whole)  # labels were read as floats
    else:
        ranked = [table.rank(pct=True) if how == "rank" else table for table in predictions]
        table = sum(ranked[1:], start=ranked[0]) / len(ranked)
    if keeps_ids:
        table = table.reindex(ids)
    elif ids is not None:
        sample = pd.DataFrame({competition.id_column: table.index}, columns=sample.columns)
    columns = {name: table[name].to_numpy() for name in competition.target_columns}
    return csv_text(sample.assign(**columns)).encode()


def _most_frequent(votes: np.ndarray) -> np.ndarray:
    """The most frequent value of each row, the first of a tie."""
    counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
    return votes[np.arange(len(votes)), counts.argmax(axis=1)]


def _whole(values: pd.Series) -> pd.Series:
    is_whole = values.dtype == float and (values % 1 == 0).all() and values.abs().max() < 2**53
    return values.astype(int) if is_whole else values


def _progress(
    evaluations: Sequence[Evaluation], competition: Competition, now_s: float, budget_s: float, worth: Worth
) -> str:
    valid = sum(evaluation.valid for evaluation in evaluations)
    line = f"{clock(now_s)} of {clock(budget_s)}  {len(evaluations)} programs, {valid} valid"
    best = ranked(evaluations, competition, worth)
    score = worth(best[0], competition) if best else None
    where = "by its own validation" if worth is validation_score else "on held-out rows"
    return line + (f"  best {where}: {competition.metric} {score:.5g}" if score is not None else "")


def clock(seconds: float) -> str:
    """Formats seconds as minutes and seconds."""
    return time.strftime("%H:%M:%S" if seconds >= 3600 else "%M:%S", time.gmtime(seconds))
