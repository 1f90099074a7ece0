"""Samples programs from a policy, executes and grades them."""

from collections.abc import Iterable, Sequence
from typing import Literal

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.harness import Harness
from trl_mle.rewards import Evaluation


# "validation": programs are chosen by their scores on the validation rows and reported by their scores on the held-out
# rows. "test": chosen and reported by the score on all rows, as in https://huggingface.co/papers/2509.01684
ChosenBy = Literal["validation", "test"]


def sample_programs(harness: Harness, num_samples: int) -> list[Evaluation]:
    """
    Samples programs from scratch, executes and grades them. Raises [`~trl_mle.evaluation.harness.NoAnswerError`] if an
    endpoint has not answered all of a batch.
    """
    evaluations: list[Evaluation] = []
    for start in range(0, num_samples, harness.batch_size):
        batch = range(start, min(start + harness.batch_size, num_samples))
        harness.write({i: harness.scratch_prompt(i) for i in batch}, "scratch", {})
        evaluations += harness.execute(batch)
    return evaluations


def judged(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Without failures of our infrastructure, which say nothing about the policy."""
    return [evaluation for evaluation in evaluations if evaluation.reward is not None]


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


def best_program(evaluations: Sequence[Evaluation], competition: Competition) -> Evaluation | None:
    """The valid evaluation with the best score (on the validation rows, if rows are held out); the first of ties."""
    valid = [(evaluation, score) for evaluation in evaluations if (score := score_of(evaluation)) is not None]
    best = max(valid, key=lambda pair: gain(pair[1], competition.higher_is_better), default=(None, None))
    return best[0]
