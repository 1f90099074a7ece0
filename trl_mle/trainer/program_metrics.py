"""What a generation batch's programs did, as numbers for `report_to`."""

from typing import Any

import numpy as np

from trl_mle.instrumentation import MILESTONES


# Every outcome has a rate in every step, be it 0: a curve with gaps cannot be averaged.
OUTCOMES = ("ok", "error", "timeout", "out_of_memory", "output_limit", "killed", "infrastructure", "no_code")


def program_metrics(columns: dict[str, list[Any]], higher_is_better: bool | None) -> dict[str, float]:
    """
    Summarise the columns that reward functions logged, one value per completion of *all* processes: quantiles and
    maxima cannot be averaged over processes afterwards.

    Args:
        columns (`dict[str, list]`):
            Any of `duration_s`, `duration_weight`, `cpu_s`, `queue_wait_s`, `outcome`, `valid`, `score` and `milestones` (their
            names joined by commas). A missing column, and `None` in a column of numbers, is unknown and left out.
        higher_is_better (`bool`, *optional*):
            Direction of the score. If `None`, the best score is not reported.

    Returns:
        `dict[str, float]`:
            The metrics. All rates but those of the outcomes leave out completions that a failure of ours
            (`"infrastructure"`) kept from being judged.
    """
    metrics: dict[str, float] = {}

    durations = _numbers(columns.get("duration_s", []))
    if durations.size:
        for quantile in (10, 50, 90):
            metrics[f"duration_s/p{quantile}"] = float(np.percentile(durations, quantile))
        metrics["duration_s/mean"] = float(durations.mean())
    weights = _numbers(columns.get("duration_weight", []))
    if weights.size:
        metrics["duration_weight/min"] = float(weights.min())
        metrics["duration_weight/mean"] = float(weights.mean())
        metrics["duration_weight/max"] = float(weights.max())
    cpu = _numbers(columns.get("cpu_s", []))
    if cpu.size:
        metrics["cpu_s/mean"] = float(cpu.mean())
    waits = _numbers(columns.get("queue_wait_s", []))
    if waits.size:
        metrics["queue_wait_s/mean"] = float(waits.mean())
        metrics["queue_wait_s/max"] = float(waits.max())

    outcomes = columns.get("outcome", [])
    for outcome in OUTCOMES if outcomes else ():
        metrics[f"outcome/{outcome}_rate"] = outcomes.count(outcome) / len(outcomes)
    judged = [i for i, outcome in enumerate(outcomes) if outcome != "infrastructure"]
    if not judged or "valid" not in columns:
        return metrics

    metrics["programs"] = len(judged)
    valid = [i for i in judged if columns["valid"][i]]
    metrics["valid_rate"] = len(valid) / len(judged)
    scores = _numbers([columns["score"][i] for i in valid] if "score" in columns else [])
    if scores.size:
        metrics["score/mean"] = float(scores.mean())
        if higher_is_better is not None:
            metrics["score/best"] = float(scores.max() if higher_is_better else scores.min())

    names = [(text or "").split(",") for text in columns.get("milestones", [""] * len(outcomes))]
    reached = {i: set(names[i]) - {""} for i in judged}
    if any(reached.values()):  # otherwise the programs were not instrumented
        for milestone in MILESTONES:
            metrics[f"milestone/{milestone}_rate"] = sum(milestone in reached[i] for i in judged) / len(judged)
        if valid:
            metrics["untrained_valid_rate"] = sum("model_trained" not in reached[i] for i in valid) / len(valid)
    return metrics


def _numbers(values: list[float | None]) -> np.ndarray:
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    return numbers[~np.isnan(numbers)]
