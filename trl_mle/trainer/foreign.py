"""Reward functions of any kind: evaluations from the columns that they log. Nothing else reads columns."""

import math
from collections.abc import Mapping
from typing import Any

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation


NUMBERS = ("duration_s", "quality", "score", "cpu_s", "queue_wait_s")  # NaN, as in pandas, is `None`
COLUMNS = (*NUMBERS, "outcome", "valid", "milestones", "output", "program", "reused")


def evaluations_from(logged: Mapping[str, list[Any]], count: int, objective: str = "reward") -> list[Evaluation]:
    """Makes evaluations, without a reward, from columns that reward functions logged with TRL's `log_extra`:
    `duration_s`, and with `outcome` (else a `score` may be anything) all of [`COLUMNS`]. Another objective than
    `"reward"` needs `quality` (larger is better, `None` if not valid)."""
    if objective != "reward" and "quality" not in logged:
        raise ValueError(f"objective={objective!r} needs log_extra('quality', [...]), or an MLEReward")
    plain = ("duration_s",) if objective == "reward" else ("duration_s", "quality")
    columns = {name: logged[name] for name in (COLUMNS if "outcome" in logged else plain) if name in logged}
    for name, values in columns.items():
        if len(values) != count:
            raise ValueError(f'log_extra("{name}", ...) got {len(values)} values for {count} completions')
        if name in NUMBERS:
            columns[name] = values = [None if value is None or math.isnan(value) else float(value) for value in values]
        if name == "duration_s" and (
            wrong := [value for value in values if value is not None and not 0 <= value < math.inf]
        ):
            raise ValueError(f'log_extra("duration_s", ...) got {wrong[0]}: log seconds, or None')
    return [_evaluation({name: values[i] for name, values in columns.items()}) for i in range(count)]


def _evaluation(logged: dict[str, Any]) -> Evaluation:
    score, quality = logged.get("score"), logged.get("quality")
    valid = logged.get("valid", score is not None or ("outcome" in logged and quality is not None))
    names = ("duration_s", "outcome", "cpu_s", "queue_wait_s", "quality", "reused")
    more: dict[str, Any] = {name: logged.get(name) for name in names}
    return Evaluation(
        reward=None,
        score=Score(score, valid=True) if valid else None,
        milestones=tuple(filter(None, (logged.get("milestones") or "").split(","))),
        output=logged.get("output") or "",
        source=logged.get("program"),
        **more,
    )
