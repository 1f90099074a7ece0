"""Finds one good submission: searches and chooses."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait

import pandas as pd

from trl_mle.competitions import Competition
from trl_mle.competitions.prepared import csv_text
from trl_mle.evaluation.harness import Harness, NoAnswerError
from trl_mle.evaluation.sampling import score_of
from trl_mle.execution import ExecutionResult, Executor, Outcome
from trl_mle.rewards import Evaluation, ProgramLog
from trl_mle.rewards.evaluation import kind_of_failure
from trl_mle.showing import PlainConsole, terminal_line


DEBUG_PROBABILITY = 0.5  # as in AIDE (https://huggingface.co/papers/2502.13138)
IMPROVED = 4  # number of best programs to improve
FIRST_S = 10.0  # that programs of the first batch have, whatever the time limit
POLL_S = 0.2  # of a program that runs again
MOST_FAILURES = 3  # reasons that are listed
MOST_AGAIN = 3  # programs that may fail in one call of `run_again`
STEPS = ("scratch", "debug", "improve")


def search(
    harness: Harness,
    budget_s: float,
    console: PlainConsole,
    on_batch: Callable[[list[Evaluation]], None] = lambda evaluations: None,
) -> list[Evaluation]:
    """
    Samples and executes programs in batches until the time is up (including an earlier interrupted run), at least one batch:
    a small one, which shows how long programs take. Each later batch is as large as the time allows. Half of it is written from
    scratch; the other half repairs programs that failed and improves the best so far, see [`next_steps`].

    Args:
        harness (`Harness`):
            The policy, and the competition.
        budget_s (`float`):
            Time limit in seconds of the log. Answers that are still written then, and programs that still run, are ended. The time
            that the best program took is kept back, because it runs again.
        console (`PlainConsole`):
            Where to print a line for each batch.
        on_batch (`Callable`, *optional*):
            Called after each batch with all evaluations so far; its time counts. Batches of an earlier run are replayed without
            it, except for the last one, so that a submission on disk is not replaced with a worse one.

    Raises:
        [`~trl_mle.evaluation.harness.NoAnswerError`]: An endpoint has answered nothing of a batch. The search goes on without
            single answers that are missing.
    """
    competition, log = harness.competition, harness.log
    results: dict[int, Evaluation] = {}  # by index: after an outage, some may be missing
    start = 0
    earlier = max((index for _, index in log.samples), default=-1)
    while True:
        best = ranked(list(results.values()), competition)
        until_s = budget_s - sum(program.duration_s or 0.0 for program in best[:1])
        size = _batch_size(harness, len(results), until_s)
        indices = _next_indices(harness, start, size, until_s)
        if not indices:
            break
        start = indices[-1] + 1
        if any((sample := log.samples.get((competition.id, i))) is None or sample.evaluation is None for i in indices):
            console.print(_progress(list(results.values()), competition, log.now(), budget_s), soft_wrap=True)
        try:
            _write(harness, indices, results, best[:IMPROVED], until_s)
        except NoAnswerError:
            if size == 1 < harness.batch_size:  # the last program that there was time for
                break
            raise
        indices = [index for index in indices if (competition.id, index) in log.samples]
        if not indices:  # the time was up before the first answer
            break
        executed = harness.execute(indices, until_s if results else max(until_s, log.now() + FIRST_S))
        results |= dict(zip(indices, executed, strict=True))
        if indices[-1] >= earlier:
            on_batch(list(results.values()))
    console.print(_progress(list(results.values()), competition, log.now(), budget_s), soft_wrap=True)
    return list(results.values())


def _batch_size(harness: Harness, num_programs: int, until_s: float) -> int:
    """How many programs there is time for; a quarter of a batch as long as nobody knows how long they take."""
    if not num_programs:
        return min(harness.batch_size, max(2, harness.batch_size // 4))
    now_s = harness.log.now()
    return max(0, min(harness.batch_size, int((until_s - now_s) * num_programs / max(now_s, 1e-9))))


def _next_indices(harness: Harness, start: int, size: int, until_s: float) -> list[int]:
    """The next programs from `start` on: those that an earlier run has begun to write, or new ones."""
    # After answers that are missing, the next one of an earlier run may be farther away than a batch
    earlier = sorted(index for _, index in harness.log.samples if index >= start)
    end = max(start + harness.batch_size, earlier[0] + 1 if earlier else start)
    written = [index for index in earlier if index < end]
    if written and harness.log.now() >= until_s:  # those without an answer are not asked again
        return written
    return list(range(start, written[-1] + 1 if written else start + size))


def _write(
    harness: Harness,
    indices: Sequence[int],
    results: Mapping[int, Evaluation],
    best: Sequence[Evaluation],
    until_s: float,
) -> None:
    """The policy writes what [`next_steps`] says. Raises [`NoAnswerError`] if none of the prompts is answered."""
    refused: NoAnswerError | None = None
    numbers = [i for program in best for i, evaluation in results.items() if evaluation is program]
    steps = next_steps(results, numbers, harness.log, indices, harness.seed)
    for step in STEPS:
        parents = {i: steps[i][1] for i in indices if steps[i][0] == step}
        prompts = {
            i: harness.scratch_prompt(i)
            if parent is None
            else harness.improve_prompt(results[parent], failed=step == "debug")
            for i, parent in parents.items()
        }
        try:
            harness.write(prompts, step, parents, until_s)
        except NoAnswerError as error:
            refused = error
    if refused is not None and not any((harness.competition.id, i) in harness.log.samples for i in indices):
        raise refused


def next_steps(
    evaluations: Mapping[int, Evaluation], best: Sequence[int], log: ProgramLog, indices: Sequence[int], seed: int
) -> dict[int, tuple[str, int | None]]:
    """
    What to write next, and the program that it shows: the first half from scratch; of the others, half are repairs of
    failed programs that have none yet, if there are any, and the rest improvements of the best.
    """
    shown = {sample.parent for sample in log.samples.values()}
    broken = [
        i
        for i, evaluation in evaluations.items()
        if evaluation.source is not None and evaluation.reward is not None and not evaluation.valid and i not in shown
    ]
    steps: dict[int, tuple[str, int | None]] = {}
    for place, index in enumerate(indices):
        rng = random.Random(f"{seed}-{index}")
        if place < len(indices) // 2 or not (best or broken):
            steps[index] = "scratch", None
        elif broken and (not best or rng.random() < DEBUG_PROBABILITY):
            steps[index] = "debug", broken.pop(rng.randrange(len(broken)))
        else:
            steps[index] = ("improve", rng.choice(list(best))) if best else ("scratch", None)
    return steps


def failures(evaluations: Sequence[Evaluation]) -> list[tuple[int, str, Evaluation]]:
    """The most frequent reasons why programs have no valid submission: how often, the reason, and the last such program."""
    kinds: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        if not evaluation.valid and evaluation.reward is not None:
            kinds.setdefault(kind_of_failure(str(evaluation.outcome), evaluation.detail), []).append(evaluation)
    most = sorted(kinds.items(), key=lambda item: -len(item[1]))[:MOST_FAILURES]
    return [(len(found), kind, found[-1]) for kind, found in most]


def ranked(evaluations: Sequence[Evaluation], competition: Competition) -> list[Evaluation]:
    """Valid programs without duplicates, best first by the score on the rows that training sees."""
    valid: dict[str | None, Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.valid:
            valid.setdefault(evaluation.source, evaluation)
    return sorted(
        valid.values(),
        key=lambda evaluation: competition.scoring.gain(evaluation.score.value),  # type: ignore[union-attr,arg-type]
        reverse=True,
    )


def run_again(
    programs: Sequence[Evaluation],
    competition: Competition,
    executor: Executor,
    console: PlainConsole,
    known: dict[str | None, bytes | str],
    time_is_up: Callable[[], bool],
) -> tuple[Evaluation, bytes] | None:
    """
    Runs programs again, best first, until one is valid again, and returns it with its submission. A program that fails because of
    our infrastructure is tried once more. `known` keeps the submission of each program, or why it has none, from one call to the
    next. It gives up after a few programs that fail. When the time is up, the running program ends and no other begins, except for
    the first of all: what was found is of use only if it runs again.
    """
    failed = 0
    for place, evaluation in enumerate(programs, 1):
        if evaluation.source not in known:
            ends = time_is_up if known else lambda: False
            if failed == MOST_AGAIN or ends():
                continue  # a worse one may be known
            known[evaluation.source] = again = _submission(evaluation, competition, executor, ends)
            if isinstance(again, str):
                failed += 1
                note = f"number {place} of {len(programs)} is skipped: when run again, {terminal_line(again)}"
                console.print(note, soft_wrap=True)
        submission = known[evaluation.source]
        if isinstance(submission, bytes):
            return evaluation, submission
    return None


def _submission(
    evaluation: Evaluation, competition: Competition, executor: Executor, time_is_up: Callable[[], bool]
) -> bytes | str:
    """The submission of a program that runs again, or why it has no valid one."""
    result = _executed(evaluation.source or "", competition, executor, time_is_up)
    if result.outcome == Outcome.INFRASTRUCTURE:
        result = _executed(evaluation.source or "", competition, executor, time_is_up)
    if result.outcome != Outcome.OK or result.submission is None:
        return result.detail or "no submission.csv was written"
    score = competition.grade(result.submission)
    return result.submission if score.valid else score.error or ""


def _executed(
    source: str, competition: Competition, executor: Executor, time_is_up: Callable[[], bool]
) -> ExecutionResult:
    future = executor.submit(source, competition)
    while not future.done() and not time_is_up():
        wait([future], timeout=POLL_S)
    if not future.done():
        future.stop()
        return ExecutionResult(Outcome.KILLED, "the time was up")
    return future.result()


def like_sample(submission: bytes, competition: Competition) -> bytes:
    """A valid submission with the ids of the sample, which a program may have read as numbers, and in its order. Where ids are not
    unique, or MLE-bench's code reads submissions, it stays as it is."""
    if competition.in_file_order or competition.grader:
        return submission
    ids = pd.read_csv(competition.sample_submission)[competition.id_column]
    if not ids.is_unique:
        return submission
    table = competition.predictions(submission).apply(_whole).reindex(ids)  # labels were read as floats
    sample = pd.read_csv(competition.sample_submission, dtype=str, keep_default_na=False)
    columns = {name: table[name].to_numpy() for name in competition.target_columns}
    return csv_text(sample.assign(**columns)).encode()


def _whole(values: pd.Series) -> pd.Series:
    is_whole = values.dtype == float and (values % 1 == 0).all() and values.abs().max() < 2**53
    return values.astype(int) if is_whole else values


def _progress(evaluations: Sequence[Evaluation], competition: Competition, now_s: float, budget_s: float) -> str:
    valid = sum(evaluation.valid for evaluation in evaluations)
    line = f"{clock(max(budget_s - now_s, 0))} left  {len(evaluations)} programs, {valid} valid"
    best = ranked(evaluations, competition)
    return line + (f"  best: {competition.metric} {score_of(best[0]):.5g}" if best else "")


def clock(seconds: float) -> str:
    """Formats seconds as minutes and seconds, from an hour on with hours."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"
