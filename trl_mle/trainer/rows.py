"""Rows with the known facts of each completion of a batch: its prompt, and the columns that reward functions logged."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.solutions.pool import syntax_tree_id


# Columns that a reward function logs besides durations, see [`~trl_mle.rewards.MLEReward`]
PROGRAM_COLUMNS = (
    "outcome",
    "valid",
    "score",
    "milestones",
    "cpu_s",
    "queue_wait_s",
    "output",
    "program",
    "reused",
    "matches",
)

# Columns about the prompt, with their values for a prompt from scratch
SCRATCH: dict[str, Any] = {"prompt_kind": "scratch", "parent_id": None, "parent_score": None}

Row = dict[str, Any]


def competition_of(example: Row, competitions: Mapping[str, Competition]) -> str | None:
    """The id in the dataset's column, or the only competition's."""
    if len(competitions) == 1:
        return example.get("competition") or next(iter(competitions))
    return example.get("competition")


def read_rows(
    inputs: list[Row],
    logged: Mapping[str, list[Any]],
    competitions: Mapping[str, Competition],
    needs_quality: bool = False,
) -> list[Row]:
    """
    Builds a row for each completion.

    Args:
        inputs (`list[dict]`):
            The dataset's columns, and those of [`SCRATCH`].
        logged (`Mapping[str, list]`):
            Columns that reward functions logged.
        competitions (`Mapping[str, Competition]`):
            Those that are trained on, by id.
        needs_quality (`bool`, *optional*, defaults to `False`):
            Whether to read `quality`, which may mean something else to other reward functions.

    Returns:
        `list[dict]`:
            `competition`, `prompt_name`, the columns of [`SCRATCH`], `duration_s`, `quality`, [`PROGRAM_COLUMNS`] and,
            with a `program`, its `program_id`. Columns that were not logged are missing.

    Raises:
        `ValueError`: A column has the wrong number of values.
    """
    rows: list[Row] = [
        {"competition": competition_of(example, competitions), "prompt_name": _prompt_name(example)}
        | {name: example[name] for name in SCRATCH}
        for example in inputs
    ]
    # Without `outcome` the reward functions are not ours, and a `score` may be anything
    columns = (
        "duration_s",
        *(("quality",) if needs_quality else ()),
        *(PROGRAM_COLUMNS if "outcome" in logged else ()),
    )
    for column in columns:
        if column not in logged:
            continue
        if len(logged[column]) != len(inputs):
            raise ValueError(
                f'log_extra("{column}", ...) got {len(logged[column])} values for {len(inputs)} completions: log '
                "one per completion, from one reward function"
            )
        for row, value in zip(rows, logged[column], strict=True):
            row[column] = value
    for row in rows:
        if row.get("program") is not None:
            row["program_id"] = syntax_tree_id(row["program"])
    return rows


def _prompt_name(example: Row) -> str:
    """Names the prompt that rollouts are compared by. Few rollouts share an improve prompt, so those count as one."""
    if example["prompt_kind"] == "scratch":
        return hashlib.sha256(json.dumps(example["prompt"], default=str).encode()).hexdigest()[:16]
    return f"{example['prompt_kind']} {example.get('competition')}"


def infrastructure_failed(row: Row) -> bool:
    """Whether our infrastructure failed, not the program."""
    return row.get("outcome") == "infrastructure"


def beats_parent(row: Row, competitions: Mapping[str, Competition]) -> bool | None:
    """Whether a completion beats the solution it was shown; `None` if none was shown or it was not judged."""
    if row["parent_score"] is None or infrastructure_failed(row):
        return None
    if not row.get("valid"):
        return False
    return competitions[row["competition"]].better(row["score"], row["parent_score"])
