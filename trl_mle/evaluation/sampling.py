"""Samples programs from a policy, executes and grades them, and summarizes the results."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from time import monotonic
from typing import Literal

from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.sample_log import Sample
from trl_mle.rewards import Evaluation
from trl_mle.showing import terminal_line


# "validation": programs are chosen by their scores on the validation rows and reported by their scores on the held-out
# rows. "test": chosen and reported by the score on all rows, as in https://huggingface.co/papers/2509.01684
ChosenBy = Literal["validation", "test"]
SAID_EVERY_S = 60.0  # of sampling


@dataclass(frozen=True)
class Summary:
    """
    Figures of sampled programs. Scores are on the held-out rows, if any.

    Args:
        num_samples (`int`):
            Number of sampled programs.
        num_valid (`int`):
            Number of valid submissions.
        num_untrained (`int`, *optional*):
            Number of valid submissions from programs that were not observed to train a model; they may have gamed the
            metric. `None` if the programs were not instrumented.
        mean_score (`float`, *optional*):
            Mean score of valid submissions; `None` if there are no valid submissions.
        best_score (`float`, *optional*):
            Score of the best program by the score on the validation rows; the mean over ties.
        mean_duration_s (`float`, *optional*):
            Mean Δt of the programs that ran, in seconds.
    """

    num_samples: int
    num_valid: int
    num_untrained: int | None
    mean_score: float | None
    best_score: float | None
    mean_duration_s: float | None

    @property
    def valid_rate(self) -> float | None:
        """Share of the samples with a valid submission; `None` without samples."""
        return self.num_valid / self.num_samples if self.num_samples else None

    def to_dict(self) -> dict[str, float | None]:
        """The figures as a JSON-compatible dictionary."""
        return {**asdict(self), "valid_rate": self.valid_rate}


def sample_programs(harness: Harness, num_samples: int) -> list[Evaluation]:
    """
    Samples programs from scratch, executes and grades them.

    Args:
        harness ([`Harness`]):
            The policy and the competition.
        num_samples (`int`):
            Number of programs.

    Raises:
        [`~trl_mle.evaluation.harness.NoAnswerError`]: An endpoint has not answered all of a batch.
    """
    began_s = monotonic()
    evaluations: list[Evaluation] = []
    for start in range(0, num_samples, harness.batch_size):
        batch = range(start, min(start + harness.batch_size, num_samples))
        samples = [Sample(harness.competition.id, "scratch", i) for i in batch]
        harness.write(samples, [harness.scratch_prompt(i) for i in batch], "scratch")
        evaluations += harness.execute(samples)
        if len(evaluations) < num_samples and monotonic() - began_s > SAID_EVERY_S:
            began_s, valid = monotonic(), sum(evaluation.valid for evaluation in evaluations)
            note = f"{harness.log.path.stem}, {harness.competition.id}: {len(evaluations)} of {num_samples} programs, {valid} valid"
            print(terminal_line(note), file=sys.stderr, flush=True)
    return evaluations


def judged(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Without failures of our infrastructure, which say nothing about the policy."""
    return [evaluation for evaluation in evaluations if evaluation.reward is not None]


def count_executed(evaluations: Iterable[Evaluation]) -> int:
    """Number of completions with a program, which was executed."""
    return sum(evaluation.source is not None for evaluation in evaluations)


def score_of(evaluation: Evaluation | None, chosen_by: ChosenBy = "validation") -> float | None:
    """The score to choose a program by; `None` without a valid submission."""
    if evaluation is None or evaluation.score is None:
        return None
    return evaluation.score.full if chosen_by == "test" else evaluation.score.value


def reported_score(evaluation: Evaluation, chosen_by: ChosenBy = "validation") -> float | None:
    """The score to report for a chosen program; `None` without a valid submission."""
    if evaluation.score is None:
        return None
    all_rows = chosen_by == "test" or evaluation.score.held_out is None
    return evaluation.score.full if all_rows else evaluation.score.held_out


def best_program(evaluations: Sequence[Evaluation], higher_is_better: bool) -> Evaluation | None:
    """The valid evaluation with the best score (on the validation rows, if rows are held out); the first of ties."""
    valid = [evaluation for evaluation in evaluations if evaluation.valid]
    return max(valid, key=lambda evaluation: gain(evaluation.score.value, higher_is_better), default=None)  # type: ignore[union-attr,arg-type]


def summarize(
    evaluations: Sequence[Evaluation], higher_is_better: bool, chosen_by: ChosenBy = "validation"
) -> Summary:
    """
    Summarizes sampled programs, without failures of our infrastructure. With `chosen_by="test"`, programs are chosen by and
    scored on all rows; without held-out rows, this makes no difference.
    """
    evaluations = judged(evaluations)
    scores = [score for evaluation in evaluations if (score := score_of(evaluation, chosen_by)) is not None]
    reported = [score for evaluation in evaluations if (score := reported_score(evaluation, chosen_by)) is not None]
    durations = [evaluation.duration_s for evaluation in evaluations if evaluation.duration_s is not None]
    best = (max if higher_is_better else min)(scores, default=None)
    best_reported = [shown for score, shown in zip(scores, reported, strict=True) if score == best]
    untrained = sum(evaluation.valid and "model_trained" not in evaluation.milestones for evaluation in evaluations)
    return Summary(
        num_samples=len(evaluations),
        num_valid=len(scores),
        num_untrained=untrained if any(evaluation.milestones for evaluation in evaluations) else None,
        mean_score=fmean(reported) if reported else None,
        best_score=_mean(best_reported) if best_reported else None,
        mean_duration_s=fmean(durations) if durations else None,
    )


def _mean(values: Sequence[float]) -> float:
    """The mean, without rounding errors if all values are equal."""
    return fmean(values) if len(set(values)) > 1 else values[0]
