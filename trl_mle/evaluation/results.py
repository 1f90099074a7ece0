"""Figures of one policy in one competition, as in `results.json`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean, mean
from typing import Any, Literal

from trl_mle.competitions import Competition
from trl_mle.competitions.medals import human_rank, medal, medal_thresholds
from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.best_of_k import best_of_k, powers_of_two
from trl_mle.rewards import Evaluation
from trl_mle.rewards.evaluation import kind_of_failure


# "validation": programs are chosen by the score on the validation rows and reported by that on the held-out rows.
# "test": chosen and reported by the score on all rows, as in https://huggingface.co/papers/2509.01684
ChosenBy = Literal["validation", "test"]
MOST_FAILURES = 3  # reasons that are listed


def judged(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Without failures of our infrastructure, which say nothing about the policy."""
    return [evaluation for evaluation in evaluations if evaluation.reward is not None]


def score_of(evaluation: Evaluation, chosen_by: ChosenBy = "validation") -> float | None:
    """The score to choose a program by; `None` without a valid submission."""
    if evaluation.score is None:
        return None
    return evaluation.score.full if chosen_by == "test" else evaluation.score.value


def of_different_scores(ranked: Sequence[Evaluation]) -> list[Evaluation]:
    """The first of those with equal scores, which most often are copies."""
    return [*{score_of(evaluation): evaluation for evaluation in reversed(ranked)}.values()][::-1]


def reported_score(evaluation: Evaluation, chosen_by: ChosenBy = "validation") -> float | None:
    """The score to report for a chosen program; `None` without a valid submission."""
    if evaluation.score is None:
        return None
    all_rows = chosen_by == "test" or evaluation.score.held_out is None
    return evaluation.score.full if all_rows else evaluation.score.held_out


def best_program(evaluations: Sequence[Evaluation], competition: Competition) -> Evaluation | None:
    """The valid evaluation with the best score (on the validation rows, if rows are held out); the first of ties."""
    valid = [(evaluation, score) for evaluation in evaluations if (score := score_of(evaluation)) is not None]
    return max(valid, key=lambda pair: gain(pair[1], competition.higher_is_better), default=(None, None))[0]


def figures(name: str, competition: Competition, evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """The JSON-compatible figures of a policy's programs in a competition, which docs/evaluation.md describes."""
    higher = competition.higher_is_better
    programs = judged(evaluations)
    num_valid = sum(program.valid for program in programs)
    untrained = sum(program.valid and "model_trained" not in program.milestones for program in programs)
    durations = [program.duration_s for program in programs if program.duration_s is not None]
    thresholds, best = medal_thresholds(competition), best_program(programs, competition)
    won = rank = None
    if thresholds is not None and best is not None and (score := score_of(best, "test")) is not None:
        won, rank = medal(score, thresholds, higher), human_rank(competition, score)
    on_all_rows = scores(programs, higher, "test")
    return {
        "policy": name,
        "competition": competition.id,
        "metric": competition.metric,
        "higher_is_better": higher,
        "holdout": competition.holdout,
        "num_samples": len(programs),
        "num_valid": num_valid,
        "valid_rate": num_valid / len(programs) if programs else None,
        # Without any milestone, programs were not instrumented
        "num_untrained": untrained if any(program.milestones for program in programs) else None,
        "mean_duration_s": fmean(durations) if durations else None,
        "num_failures_of_ours": len(evaluations) - len(programs),
        **(scores(programs, higher, "validation") if competition.holdout else on_all_rows),
        "on_all_rows": on_all_rows if competition.holdout else {},
        "medal": won,
        "human_rank": rank,
    }


def scores(programs: Sequence[Evaluation], higher_is_better: bool, chosen_by: ChosenBy) -> dict[str, Any]:
    """Figures that depend on how programs are chosen: the mean score, the best, and the best of k."""
    chosen = [score_of(program, chosen_by) for program in programs]
    reported = [reported_score(program, chosen_by) for program in programs]
    ks = powers_of_two(len(programs))
    curve = best_of_k(chosen, ks, higher_is_better, reported=None if chosen == reported else reported)
    valid = [score for score in reported if score is not None]
    valid_chosen = [score for score in chosen if score is not None]
    best = (max if higher_is_better else min)(valid_chosen, default=None)
    of_best = [score for choice, score in zip(valid_chosen, valid, strict=True) if choice == best]
    return {
        "chosen_by": chosen_by,
        # Not fmean: the mean of equal scores is that score
        "mean_score": mean(valid) if valid else None,
        "best_score": mean(of_best) if of_best else None,
        "best_of_k": [asdict(point) for point in curve],
    }


def failures(evaluations: Sequence[Evaluation]) -> list[str]:
    """The most frequent reasons why programs have no valid submission."""
    kinds = Counter(
        kind_of_failure(str(evaluation.outcome), evaluation.detail)
        for evaluation in evaluations
        if not evaluation.valid
    )
    return [f"{count} of {len(evaluations)}: {kind}" for kind, count in kinds.most_common(MOST_FAILURES)]
