"""Evaluations as columns of TRL's completions table, which people read."""

from collections.abc import Sequence
from typing import Any

from trl_mle.rewards.evaluation import Evaluation


def columns_of(evaluations: Sequence[Evaluation]) -> dict[str, list[Any]]:
    """The columns that show evaluations: `duration_s`, `cpu_s` and `queue_wait_s` in seconds, `outcome`, `valid`,
    `score`, `quality`, `milestones` (joined by commas) and `output` (its beginning and end); if equal programs run
    once, also `reused`."""
    columns: dict[str, list[Any]] = {
        "duration_s": [item.duration_s for item in evaluations],
        "outcome": [str(item.outcome) for item in evaluations],
        "valid": [item.valid for item in evaluations],
        "score": [item.score.value if item.score else None for item in evaluations],
        "quality": [item.quality for item in evaluations],
        "milestones": [",".join(item.milestones) for item in evaluations],
        "cpu_s": [item.cpu_s for item in evaluations],
        "queue_wait_s": [item.queue_wait_s for item in evaluations],
        "output": [item.shortened().output for item in evaluations],
    }
    if any(item.reused is not None for item in evaluations):
        columns["reused"] = [item.reused for item in evaluations]
    return columns
