"""Metrics of a generation batch's programs for `report_to`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trl_mle.competitions import Competition
from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards.evaluation import NO_CODE
from trl_mle.trainer.rows import Row, beats_parent


# Every outcome has a rate in every step, even if it is 0: curves with gaps cannot be averaged
OUTCOMES = (*map(str, Outcome), NO_CODE)


def batch_metrics(rows: list[Row], competitions: Mapping[str, Competition], by_kind: bool) -> dict[str, float]:
    """
    Computes all metrics of a batch.

    Args:
        rows (`list[dict]`):
            The completions of all processes, see [`~trl_mle.trainer.rows.read_rows`], with their `duration_weight`.
        competitions (`Mapping[str, Competition]`):
            Those that are trained on, by id.
        by_kind (`bool`):
            Whether to also report each kind of prompt.

    Returns:
        `dict[str, float]`:
            The [`program_metrics`] of all programs, of each competition if there are several (`<slug>/…`), and of each
            kind of prompt (`scratch/…`); the share of distinct programs (syntax trees); how often an improvement
            equals or beats its parent, and how often a program from scratch in this batch would beat it
            (`improve/beats_parent_chance`).
    """
    metrics: dict[str, float] = {}
    present = list(dict.fromkeys(row["competition"] for row in rows))
    several = max(len(present), len(competitions)) > 1
    for name in present:
        competition = competitions.get(name or "")
        prefix = f"{competition.slug if competition else name}/" if several else ""
        found = program_metrics(
            _columns([row for row in rows if row["competition"] == name]),
            competition.higher_is_better if competition else None,
        )
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    if several:
        metrics |= program_metrics(_columns(rows, scores=False), None)
    if by_kind:
        only = next(iter(competitions.values())) if len(competitions) == 1 else None
        for kind in dict.fromkeys(row["prompt_kind"] for row in rows):
            columns = _columns([row for row in rows if row["prompt_kind"] == kind], scores=only is not None)
            found = program_metrics(columns, only.higher_is_better if only else None)
            metrics |= {f"{kind}/{key}": value for key, value in found.items()}
    ids = [row["program_id"] for row in rows if "program_id" in row]
    if ids:
        metrics["unique_rate"] = len(set(ids)) / len(ids)
    copies = [row["program_id"] == row["parent_id"] for row in rows if row["parent_id"] and "program_id" in row]
    if copies:
        metrics["copy_rate"] = sum(copies) / len(copies)
    beats = [value for row in rows if (value := beats_parent(row, competitions)) is not None]
    if beats:
        metrics["improve/beats_parent_rate"] = sum(beats) / len(beats)
    chances = [chance for row in rows if (chance := _chance(row, rows, competitions)) is not None]
    if chances:
        metrics["improve/beats_parent_chance"] = sum(chances) / len(chances)
    return metrics


def _chance(row: Row, rows: list[Row], competitions: Mapping[str, Competition]) -> float | None:
    """Share of programs from scratch that beat the solution shown to this completion; `None` if either is missing."""
    if beats_parent(row, competitions) is None:
        return None
    parent = {"parent_score": row["parent_score"]}
    scratch = [
        other for other in rows if other["prompt_kind"] == "scratch" and other["competition"] == row["competition"]
    ]
    beats = [value for other in scratch if (value := beats_parent(other | parent, competitions)) is not None]
    return sum(beats) / len(beats) if beats else None


def program_metrics(columns: dict[str, list[Any]], higher_is_better: bool | None) -> dict[str, float]:
    """
    Summarises the columns that reward functions logged, with one value per completion of *all* processes, because
    quantiles and maxima cannot be averaged over processes afterwards.

    Args:
        columns (`dict[str, list]`):
            Any of `duration_s`, `duration_weight`, `cpu_s`, `queue_wait_s`, `outcome`, `valid`, `score`, `milestones`
            (their names joined by commas), `reused` and `matches`. Missing columns, and `None` in numeric columns, are
            left out.
        higher_is_better (`bool`, *optional*):
            Direction of the score. If `None`, the best score is not reported.

    Returns:
        `dict[str, float]`:
            The metrics. All rates except outcome rates leave out completions that could not be judged because of a
            failure of our infrastructure (`"infrastructure"`).
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

    metrics |= _reuse_metrics(columns)
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


def _reuse_metrics(columns: dict[str, list[Any]]) -> dict[str, float]:
    """
    `rate`: share of programs that were not executed, because an equal one was; `saved_s`: their total Δt in seconds;
    `mismatch_rate`: share of repeats with a different outcome or score, among programs executed again as a check.
    """
    if "reused" not in columns:
        return {}
    programs = [i for i, outcome in enumerate(columns["outcome"]) if outcome != NO_CODE]
    reused = [i for i in programs if columns["reused"][i]]
    metrics = {
        "reuse/rate": len(reused) / max(1, len(programs)),
        "reuse/saved_s": float(_numbers([columns["duration_s"][i] for i in reused]).sum()),
    }
    matches = [same for same in columns["matches"] if same is not None]
    if matches:
        metrics["reuse/mismatch_rate"] = matches.count(False) / len(matches)
    return metrics


def _numbers(values: list[float | None]) -> np.ndarray:
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    return numbers[~np.isnan(numbers)]


def _columns(rows: list[Row], scores: bool = True) -> dict[str, list[Any]]:
    """The rows by column; without scores if metrics differ, because their mean would be meaningless."""
    names = {name for row in rows for name in row} - (set() if scores else {"score"})
    return {name: [row.get(name) for row in rows] for name in names}
