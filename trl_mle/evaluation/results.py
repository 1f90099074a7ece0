"""Figures of one policy in one competition, as in `results.json`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.competitions.medals import human_rank, medal, medal_thresholds
from trl_mle.evaluation.best_of_k import best_of_k, powers_of_two
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import (
    ChosenBy,
    best_program,
    count_executed,
    judged,
    reported_score,
    score_of,
    summarize,
)
from trl_mle.rewards import Evaluation


def figures(
    name: str,
    competition: Competition,
    evaluations: Sequence[Evaluation],
    log: SampleLog,
) -> dict[str, Any]:
    """
    Computes the JSON-compatible figures of a policy's programs in a competition; docs/evaluation.md describes them. The log
    has the programs' cost, including further rounds.
    """
    higher = competition.higher_is_better
    known = judged(evaluations)
    thresholds, best = medal_thresholds(competition), best_program(known, higher)
    won = beaten = None
    if thresholds is not None and best is not None and (score := score_of(best, "test")) is not None:
        won, beaten = medal(score, thresholds, higher), human_rank(competition, score)
    on_all_rows = _scores(competition, known, "test")
    return {
        "policy": name,
        "competition": competition.id,
        "metric": competition.metric,
        "higher_is_better": higher,
        "holdout": competition.holdout,
        **summarize(known, higher).to_dict(),
        "num_failures_of_ours": len(evaluations) - len(known),
        "num_executed": count_executed(known),
        **(_scores(competition, known, "validation") if competition.holdout else on_all_rows),
        "on_all_rows": on_all_rows if competition.holdout else {},
        "medal": won,
        "human_rank": beaten,
        "medal_thresholds": thresholds and thresholds._asdict(),
        "cost": log.cost(competition.id),
    }


def _scores(competition: Competition, known: Sequence[Evaluation], chosen_by: ChosenBy) -> dict[str, Any]:
    """Figures that depend on how programs are chosen."""
    higher = competition.higher_is_better
    summary = summarize(known, higher, chosen_by)
    scores = [score_of(evaluation, chosen_by) for evaluation in known]
    # Without held-out rows, the two scores are the same
    reported = [reported_score(evaluation, chosen_by) for evaluation in known] if chosen_by != "test" else None
    curve = best_of_k(scores, powers_of_two(len(scores)), higher, reported=reported)
    return {
        "chosen_by": chosen_by,
        "mean_score": summary.mean_score,
        "best_score": summary.best_score,
        "best_of_k": [asdict(point) for point in curve],
    }


def add_equal_costs(rows: Sequence[dict[str, Any]], logs: Sequence[SampleLog]) -> None:
    """
    Adds to the rows of one competition each policy's best score at equal numbers of executed programs
    (`at_equal_programs`) and at equal time (`at_equal_time`), both limited to the cheapest policy's. If results were
    reused, equal programs count as executed, and the score at equal time is unknown.
    """
    num_executed = min(row["cost"]["num_executed"] for row in rows)
    reused = any(
        evaluation.reused
        for row, log in zip(rows, logs, strict=True)
        for _, evaluation in log.in_order(row["competition"])
    )
    seconds = None if reused else min(row["cost"]["elapsed_s"] for row in rows)
    for row, log in zip(rows, logs, strict=True):
        known = log.in_order(row["competition"])
        executed = [evaluation for _, evaluation in known if evaluation.source is not None]
        in_time = [evaluation for elapsed_s, evaluation in known if seconds is not None and elapsed_s <= seconds]
        for key, limit, evaluations in (
            ("at_equal_programs", {"num_executed": num_executed}, executed[:num_executed]),
            ("at_equal_time", {"elapsed_s": seconds}, in_time),
        ):
            for found in filter(None, (row, row["on_all_rows"])):
                best = summarize(evaluations, row["higher_is_better"], found["chosen_by"]).best_score
                found[key] = limit | {"best_score": best}
