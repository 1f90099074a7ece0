"""Metrics of a generation batch's programs for `report_to`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trl_mle.competitions import Competition
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import Evaluation
from trl_mle.rewards.evaluation import NO_CODE
from trl_mle.trainer.batch import Completion


# Every outcome has a rate in every step, even if it is 0: curves with gaps cannot be averaged
OUTCOMES = (*map(str, Outcome), NO_CODE)


def batch_metrics(
    completions: Sequence[Completion], competitions: Mapping[str, Competition], by_kind: bool, instrumented: bool
) -> dict[str, float]:
    """
    Computes all metrics of a batch.

    Args:
        completions (`Sequence[Completion]`):
            The completions of *all* processes, because quantiles and maxima cannot be averaged afterwards.
        competitions (`Mapping[str, Competition]`):
            Those that are trained on, by id.
        by_kind (`bool`):
            Whether to also report each kind of prompt.
        instrumented (`bool`):
            Whether milestones are known.

    Returns:
        `dict[str, float]`: The [`program_metrics`] of all programs, of each competition if there are several but few, and of
        each kind of prompt; and how improvements compare with their parents. docs/metrics.md describes each.
    """
    metrics: dict[str, float] = {}
    present = list(dict.fromkeys(item.competition for item in completions))
    several = max(len(present), len(competitions)) > 1
    for name in present if len(competitions) <= FEW else ():
        competition = competitions.get(name or "")
        prefix = f"{competition.slug if competition else name}/" if several else ""
        found = program_metrics(
            [item for item in completions if item.competition == name],
            competition.higher_is_better if competition else None,
            instrumented,
        )
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    if several:
        metrics |= program_metrics(completions, None, instrumented, scores=False)
    if by_kind:
        only = next(iter(competitions.values())) if len(competitions) == 1 else None
        for kind in dict.fromkeys(item.prompt_kind for item in completions):
            of_kind = [item for item in completions if item.prompt_kind == kind]
            direction = only.higher_is_better if only else None
            found = program_metrics(of_kind, direction, instrumented, scores=only is not None)
            metrics |= {f"{kind}/{key}": value for key, value in found.items()}
    programs = [(program, item.parent_id) for item in completions if (program := item.evaluation.program_id)]
    if programs:
        metrics["unique_rate"] = len({program for program, _ in programs}) / len(programs)
    copies = [program == parent for program, parent in programs if parent]
    if copies:
        metrics["copy_rate"] = sum(copies) / len(copies)
    beats = [value for item in completions if (value := item.beats(item.parent_score, competitions)) is not None]
    if beats:
        metrics["improve/beats_parent_rate"] = sum(beats) / len(beats)
    chances = [chance for item in completions if (chance := _chance(item, completions, competitions)) is not None]
    if chances:
        metrics["improve/beats_parent_chance"] = sum(chances) / len(chances)
    return metrics


def _chance(
    completion: Completion, completions: Sequence[Completion], competitions: Mapping[str, Competition]
) -> float | None:
    """Share of programs from scratch that beat the solution shown to this completion; `None` if either is missing."""
    score = completion.parent_score
    if completion.beats(score, competitions) is None:
        return None
    scratch = [
        item for item in completions if item.prompt_kind == "scratch" and item.competition == completion.competition
    ]
    beats = [value for item in scratch if (value := item.beats(score, competitions)) is not None]
    return sum(beats) / len(beats) if beats else None


def program_metrics(
    completions: Sequence[Completion], higher_is_better: bool | None, instrumented: bool, scores: bool = True
) -> dict[str, float]:
    """Summarises the programs of completions. What is not known of them is left out, and so are, from all rates except
    outcome rates, failures of our infrastructure. The best score needs its direction; scores whose metrics differ
    are left out."""
    metrics: dict[str, float] = {}
    evaluations = [item.evaluation for item in completions]

    durations = _numbers(item.duration_s for item in evaluations)
    if durations.size:
        for quantile in (10, 50, 90):
            metrics[f"duration_s/p{quantile}"] = float(np.percentile(durations, quantile))
        metrics["duration_s/mean"] = float(durations.mean())
    weights = _numbers(item.weight for item in completions)
    if weights.size:
        metrics["duration_weight/min"] = float(weights.min())
        metrics["duration_weight/mean"] = float(weights.mean())
        metrics["duration_weight/max"] = float(weights.max())
    cpu = _numbers(item.cpu_s for item in evaluations)
    if cpu.size:
        metrics["cpu_s/mean"] = float(cpu.mean())
    waits = _numbers(item.queue_wait_s for item in evaluations)
    if waits.size:
        metrics["queue_wait_s/mean"] = float(waits.mean())
        metrics["queue_wait_s/max"] = float(waits.max())

    metrics |= _reuse_metrics(evaluations)
    outcomes = [item.outcome for item in evaluations if item.outcome is not None]
    for outcome in OUTCOMES if outcomes else ():
        metrics[f"outcome/{outcome}_rate"] = outcomes.count(outcome) / len(outcomes)
    judged = [item for item in evaluations if item.outcome is not None and not item.infrastructure_failed]
    if not judged:
        return metrics

    metrics["programs"] = len(judged)
    valid = [item for item in judged if item.valid]
    metrics["valid_rate"] = len(valid) / len(judged)
    values = _numbers(item.score.value for item in valid if item.score is not None)
    if scores and values.size:
        metrics["score/mean"] = float(values.mean())
        if higher_is_better is not None:
            metrics["score/best"] = float(values.max() if higher_is_better else values.min())

    if instrumented:
        for milestone in MILESTONES:
            metrics[f"milestone/{milestone}_rate"] = sum(milestone in item.milestones for item in judged) / len(judged)
        if valid:
            untrained = sum("model_trained" not in item.milestones for item in valid)
            metrics["untrained_valid_rate"] = untrained / len(valid)
    return metrics


def _reuse_metrics(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """How many programs were not executed because an equal one was, and the Δt that this saved."""
    if all(item.reused is None for item in evaluations):
        return {}
    programs = [item for item in evaluations if item.outcome != NO_CODE]
    reused = [item for item in programs if item.reused]
    return {
        "reuse/rate": len(reused) / max(1, len(programs)),
        "reuse/saved_s": float(_numbers(item.duration_s for item in reused).sum()),
    }


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    return np.array([value for value in values if value is not None], dtype=float)
