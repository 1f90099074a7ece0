"""Searches for the best program in a given time."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

from trl_mle.competitions import Competition
from trl_mle.evaluation.harness import Harness, NoAnswerError, Request
from trl_mle.evaluation.results import score_of
from trl_mle.models import Completion
from trl_mle.rewards import Evaluation, Sample
from trl_mle.showing import PlainConsole


DEBUG_PROBABILITY = 0.5  # as in AIDE (https://huggingface.co/papers/2502.13138)
IMPROVED = 4  # number of best programs to improve
FIRST_S = 10.0  # that programs of the first batch have, whatever the time limit


def search(
    harness: Harness,
    budget_s: float,
    console: PlainConsole,
    on_batch: Callable[[list[Evaluation]], None] = lambda evaluations: None,
    start: Sequence[str] = (),
) -> list[Evaluation]:
    """Executes the programs to `start` from, then samples and executes others in batches until `budget_s` of the log
    are up, at least a small batch, which shows how long programs take. Half of a later batch is written from scratch;
    the other half is what [`next_steps`] says. Prints a line for each, and calls `on_batch` with all evaluations so
    far. Raises [`~trl_mle.evaluation.harness.NoAnswerError`] if an endpoint has answered nothing of a batch."""
    competition, log = harness.competition, harness.log
    results: dict[int, Evaluation] = {}
    if not log.samples:
        begun = {i: Sample(Completion(f"```python\n{source}\n```"), "start") for i, source in enumerate(start)}
        log.add_completions(competition.id, begun)
    indices = sorted(index for _, index in log.samples)  # of an earlier run
    while True:
        if indices:
            until_s = budget_s if results else max(budget_s, log.now() + FIRST_S)
            results |= dict(zip(indices, harness.execute(indices, until_s), strict=True))
            on_batch(list(results.values()))
        console.print(_progress(list(results.values()), competition, log.now(), budget_s), soft_wrap=True)
        written = sum(sample.step != "start" for sample in log.samples.values())
        size = _batch_size(harness, written, budget_s)
        if not size:
            return list(results.values())
        first = max((index for _, index in log.samples), default=-1) + 1
        try:
            _write(harness, range(first, first + size), results, budget_s)
        except NoAnswerError:
            if size == 1 < harness.batch_size:  # the last program that there was time for
                return list(results.values())
            raise
        indices = [index for index in range(first, first + size) if (competition.id, index) in log.samples]
        if not indices:  # the time was up before the first answer
            return list(results.values())


def _batch_size(harness: Harness, num_programs: int, budget_s: float) -> int:
    """How many programs there is time for; a quarter of a batch as long as nobody knows how long they take."""
    if not num_programs:
        return min(harness.batch_size, max(2, harness.batch_size // 4))
    now_s = harness.log.now()
    return max(0, min(harness.batch_size, int((budget_s - now_s) * num_programs / max(now_s, 1e-9))))


def _write(harness: Harness, indices: Sequence[int], results: Mapping[int, Evaluation], until_s: float) -> None:
    """The policy writes what [`next_steps`] says. Raises [`NoAnswerError`] if none of the prompts is answered."""
    refused: NoAnswerError | None = None
    requests = next_steps(results, harness, indices)
    for step in ("scratch", "vary", "debug", "improve"):  # prompts of similar lengths together
        try:
            harness.write({i: request for i, request in requests.items() if request.step == step}, until_s)
        except NoAnswerError as error:
            refused = error
    if refused is not None and not any((harness.competition.id, i) in harness.log.samples for i in indices):
        raise refused


def next_steps(results: Mapping[int, Evaluation], harness: Harness, indices: Sequence[int]) -> dict[int, Request]:
    """What to write next: the first half from scratch. With ideas, the others are variations of the best ones; else
    half of them are repairs of failed programs that have none yet, and the rest improvements of the best programs."""
    repaired = {sample.parent for sample in harness.log.samples.values() if sample.step == "debug"}
    failed = {i: item for i, item in results.items() if item.reward is not None and not item.valid}
    broken = [i for i, item in failed.items() if item.source is not None and i not in repaired]
    numbers = {id(evaluation): i for i, evaluation in results.items()}
    best = [numbers[id(evaluation)] for evaluation in ranked(list(results.values()), harness.competition)]
    requests: dict[int, Request] = {}
    turns = itertools.count(sum(sample.step == "scratch" for sample in harness.log.samples.values()))
    for place, index in enumerate(indices):
        rng = random.Random(f"{harness.seed}-{index}")
        if place < len(indices) // 2 or not (best or broken):
            requests[index] = harness.scratch(next(turns))
        elif harness.ideas.of(harness.competition):
            requests[index] = harness.variation(best, rng) or harness.scratch(next(turns))
        elif broken and (not best or rng.random() < DEBUG_PROBABILITY):
            parent = broken.pop(rng.randrange(len(broken)))
            requests[index] = harness.improvement(parent, results[parent], "debug")
        else:
            parent = rng.choice(best[:IMPROVED])
            requests[index] = harness.improvement(parent, results[parent], "improve")
    return requests


def ranked(evaluations: Sequence[Evaluation], competition: Competition) -> list[Evaluation]:
    """Valid programs without duplicates, best first by the score on the validation rows."""
    valid: dict[str | None, Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.valid:
            valid.setdefault(evaluation.source, evaluation)
    return sorted(valid.values(), key=lambda item: competition.scoring.gain(score_of(item) or 0.0), reverse=True)


def _progress(evaluations: Sequence[Evaluation], competition: Competition, now_s: float, budget_s: float) -> str:
    valid = sum(evaluation.valid for evaluation in evaluations)
    line = f"{clock(max(budget_s - now_s, 0))} left  {len(evaluations)} programs, {valid} valid"
    best = ranked(evaluations, competition)
    return line + (f"  best: {competition.metric} {score_of(best[0]):.5g}" if best else "")


def clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"
