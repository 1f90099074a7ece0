"""Reward functions of any kind: evaluations from the columns that they log. Nothing else reads columns."""

import math
from collections.abc import Mapping
from typing import Any

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation


# Read beside `outcome`; without it a `score` may be anything
PROGRAM_COLUMNS = (
    *("outcome", "valid", "score", "quality", "milestones", "output", "program"),
    *("cpu_s", "queue_wait_s", "reused"),
)
NUMBERS = ("duration_s", "quality", "score", "cpu_s", "queue_wait_s")  # NaN, as in pandas, is `None`


def evaluations_from(logged: Mapping[str, list[Any]], count: int, objective: str = "reward") -> list[Evaluation]:
    """
    Makes evaluations, one per completion and without a reward, from what reward functions logged with TRL's `log_extra`.

    Args:
        logged (`Mapping[str, list]`):
            The columns: `duration_s` (seconds), and with `outcome` those of [`PROGRAM_COLUMNS`]. All are optional, and may
            have `None`.
        count (`int`):
            Number of completions.
        objective (`str`, *optional*, defaults to `"reward"`):
            Any other objective needs the column `quality` (larger is better, `None` if not valid), even without `outcome`.

    Raises:
        `ValueError`: `quality` is missing, a column has the wrong number of values, or a duration is no number of seconds.
    """
    if objective != "reward" and "quality" not in logged:
        raise ValueError(
            f"objective={objective!r} needs the quality of valid completions: log_extra('quality', [...]), None where one "
            "is not valid, or use an MLEReward"
        )
    names = ["duration_s"]
    names += ["quality"] if objective != "reward" else []
    names += PROGRAM_COLUMNS if "outcome" in logged else []
    columns = {name: logged[name] for name in names if name in logged}
    for name, values in columns.items():
        if len(values) != count:
            raise ValueError(
                f'log_extra("{name}", ...) got {len(values)} values for {count} completions: log one per completion, from '
                "one reward function"
            )
        if name in NUMBERS:
            columns[name] = values = [None if value is None or math.isnan(value) else value for value in values]
        if name == "duration_s" and (
            wrong := [value for value in values if value is not None and not 0 <= value < math.inf]
        ):
            raise ValueError(f'log_extra("duration_s", ...) got {wrong[0]}: log seconds, or None where Δt is unknown')
    return [_evaluation({name: values[i] for name, values in columns.items()}) for i in range(count)]


def _evaluation(known: dict[str, Any]) -> Evaluation:
    score, quality = known.get("score"), known.get("quality")
    valid = known.get("valid", score is not None or ("outcome" in known and quality is not None))
    return Evaluation(
        reward=None,
        duration_s=known.get("duration_s"),
        score=Score(score, valid=True) if valid else None,
        outcome=known.get("outcome"),
        milestones=tuple(filter(None, (known.get("milestones") or "").split(","))),
        output=known.get("output") or "",
        source=known.get("program"),
        cpu_s=known.get("cpu_s"),
        queue_wait_s=known.get("queue_wait_s"),
        quality=quality,
        reused=known.get("reused"),
    )
