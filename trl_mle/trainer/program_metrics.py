"""Metrics of a generation batch's programs for `report_to`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trl_mle.competitions import Competition
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards.evaluation import NO_CODE
from trl_mle.trainer.batch import Completion


# Every outcome has a rate in every step, even if it is 0: curves with gaps cannot be averaged
OUTCOMES = (*map(str, Outcome), NO_CODE)


def batch_metrics(
    completions: Sequence[Completion], competitions: Mapping[str, Competition], by_kind: bool, instrumented: bool
) -> dict[str, float]:
    """All metrics of the completions of *all* processes (docs/evaluation.md): of all programs, of each competition if
    there are several but few, and with `by_kind` of each kind of prompt."""
    present = dict.fromkeys(item.competition for item in completions)
    several = max(len(present), len(competitions)) > 1
    # Prefix, completions, whether a larger score is better, and whether their scores can be compared
    groups: list[tuple[str, Sequence[Completion], bool | None, bool]] = []
    for name in present if len(competitions) <= FEW else ():
        competition = competitions.get(name or "")
        prefix = f"{competition.slug if competition else name}/" if several else ""
        higher = competition.higher_is_better if competition else None
        groups.append((prefix, [item for item in completions if item.competition == name], higher, True))
    if several:
        groups.append(("", completions, None, False))
    for kind in dict.fromkeys(item.prompt_kind for item in completions) if by_kind else ():
        higher = next(iter(competitions.values())).higher_is_better if len(competitions) == 1 else None
        of_kind = [item for item in completions if item.prompt_kind == kind]
        groups.append((f"{kind}/", of_kind, higher, higher is not None))
    metrics: dict[str, float] = {}
    for prefix, members, higher, scores in groups:
        metrics |= program_metrics(members, higher, instrumented, scores, prefix)
    programs = [(program, item.parent_id) for item in completions if (program := item.evaluation.program_id)]
    rates = {
        "unique_rate": len({program for program, _ in programs}) / len(programs) if programs else None,
        "copy_rate": _mean(program == parent for program, parent in programs if parent),
        "improve/beats_parent_rate": _mean(item.beats(item.parent_score, competitions) for item in completions),
    }
    return metrics | {name: rate for name, rate in rates.items() if rate is not None}


def program_metrics(
    completions: Sequence[Completion],
    higher_is_better: bool | None,
    instrumented: bool,
    scores: bool = True,
    prefix: str = "",
) -> dict[str, float]:
    """Summarises the programs of completions; failures of our infrastructure count in outcome rates alone."""
    evaluations = [item.evaluation for item in completions]
    metrics: dict[str, float] = {}
    if (seconds := _numbers(item.duration_s for item in evaluations)).size:
        metrics |= {f"duration_s/p{quantile}": float(np.percentile(seconds, quantile)) for quantile in (10, 50, 90)}
    for name, values, summaries in (
        ("duration_s", seconds, ("mean",)),
        ("duration_weight", _numbers(item.weight for item in completions), ("min", "mean", "max")),
        ("cpu_s", _numbers(item.cpu_s for item in evaluations), ("mean",)),
        ("queue_wait_s", _numbers(item.queue_wait_s for item in evaluations), ("mean", "max")),
    ):
        if values.size:
            metrics |= {f"{name}/{summary}": float(getattr(np, summary)(values)) for summary in summaries}
    if any(item.reused is not None for item in evaluations):
        programs = [item for item in evaluations if item.outcome != NO_CODE]
        reused = [item for item in programs if item.reused]
        saved_s = float(_numbers(item.duration_s for item in reused).sum())  # of those that an equal one stood for
        metrics |= {"reuse/rate": len(reused) / max(1, len(programs)), "reuse/saved_s": saved_s}
    outcomes = [item.outcome for item in evaluations if item.outcome is not None]
    if outcomes:
        metrics |= {f"outcome/{outcome}_rate": outcomes.count(outcome) / len(outcomes) for outcome in OUTCOMES}
    judged = [item for item in evaluations if item.outcome is not None and not item.infrastructure_failed]
    if judged:
        valid = [item for item in judged if item.valid]
        metrics |= {"programs": len(judged), "valid_rate": len(valid) / len(judged)}
        values = _numbers(item.score.value for item in valid if item.score is not None)
        if scores and values.size:
            metrics["score/mean"] = float(values.mean())
            if higher_is_better is not None:
                metrics["score/best"] = float(values.max() if higher_is_better else values.min())
        if instrumented:
            for milestone in MILESTONES:
                reached = sum(milestone in item.milestones for item in judged)
                metrics[f"milestone/{milestone}_rate"] = reached / len(judged)
            if valid:
                untrained = sum("model_trained" not in item.milestones for item in valid)
                metrics["untrained_valid_rate"] = untrained / len(valid)
    return {f"{prefix}{name}": value for name, value in metrics.items()}


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    return np.array([value for value in values if value is not None], dtype=float)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = _numbers(values)
    return float(numbers.mean()) if numbers.size else None
