"""The figures of one policy at one competition, as `results.json` holds them."""

from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.competitions.medals import medal, medal_thresholds
from trl_mle.evaluation.best_of_k import best_of_k, powers_of_two
from trl_mle.evaluation.evaluation_log import EvaluationLog
from trl_mle.evaluation.sampling import count_executed, score_of, summarize
from trl_mle.evaluation.self_improvement import validation_score
from trl_mle.rewards import Evaluation


def figures(
    name: str,
    competition: Competition,
    evaluations: Sequence[Evaluation],
    log: EvaluationLog,
    independent: bool = True,
) -> dict[str, Any]:
    """
    What a policy is worth at a competition.

    Args:
        name (`str`):
            Name of the policy.
        competition ([`~trl_mle.competitions.Competition`]):
            The competition.
        evaluations (`list[Evaluation]`):
            Its programs from scratch, or those of a tree.
        log ([`EvaluationLog`]):
            What they have cost, further rounds included.
        independent (`bool`, *optional*, defaults to `True`):
            Whether the programs are samples that know nothing of each other. Without, there is no best of k.

    Returns:
        `dict`: For JSON. `best_score` is the best on the hidden answers, as in
        https://huggingface.co/papers/2509.01684; `by_validation` the score, on the hidden answers, of the program that is
        best by the score that it reports of itself.
    """
    higher = competition.higher_is_better
    judged = [evaluation for evaluation in evaluations if evaluation.reward is not None]
    summary = summarize(judged, higher)
    thresholds = medal_thresholds(competition.id)
    won = None
    if thresholds is not None and summary.best_score is not None:
        won = medal(summary.best_score, thresholds, higher)
    reporting = [
        (value, score)
        for evaluation in judged
        if (value := validation_score(evaluation, competition)) is not None
        and (score := score_of(evaluation)) is not None
    ]
    chosen = (max if higher else min)(reporting, key=itemgetter(0))[1] if reporting else None
    scores = [score_of(evaluation) for evaluation in judged]
    curve = best_of_k(scores, powers_of_two(len(scores)), higher) if independent else []
    return {
        "policy": name,
        "competition": competition.id,
        "metric": competition.metric,
        "higher_is_better": higher,
        "independent": independent,
        **summary.to_dict(),
        "num_failures_of_ours": len(evaluations) - len(judged),
        "num_executed": count_executed(judged),
        "best_of_k": [asdict(point) for point in curve],
        "by_validation": {"score": chosen, "num_reporting": len(reporting)},
        "medal": won,
        "medal_thresholds": thresholds and thresholds._asdict(),
        "cost": log.cost(competition.id),
    }


def add_equal_costs(rows: Sequence[dict[str, Any]], logs: Sequence[EvaluationLog]) -> None:
    """
    Adds to the rows of one competition what each policy had found when all of them had executed as many programs
    (`at_equal_programs`), and when all had run as long (`at_equal_time`): as much as the thriftiest.

    Args:
        rows (`list[dict]`):
            What [`figures`] returned for each policy.
        logs (`list[EvaluationLog]`):
            Their logs.
    """
    num_executed = min(row["cost"]["num_executed"] for row in rows)
    seconds = min(row["cost"]["elapsed_s"] for row in rows)
    for row, log in zip(rows, logs, strict=True):
        known = log.in_order(row["competition"])
        executed = [evaluation for _, evaluation in known if evaluation.source is not None]
        in_time = [evaluation for elapsed_s, evaluation in known if elapsed_s <= seconds]
        for key, limit, evaluations in (
            ("at_equal_programs", {"num_executed": num_executed}, executed[:num_executed]),
            ("at_equal_time", {"elapsed_s": seconds}, in_time),
        ):
            row[key] = limit | {"best_score": summarize(evaluations, row["higher_is_better"]).best_score}
