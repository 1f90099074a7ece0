"""The completions of a batch: what each was asked, and the evaluation of its program."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.rewards import Evaluation


Row = dict[str, Any]  # of the dataset, with the columns of SCRATCH

# Columns about the prompt, with their values for a prompt from scratch
SCRATCH: Row = {"prompt_kind": "scratch", "parent_id": None, "parent_score": None}


@dataclass(frozen=True)
class Judged:
    """
    A completion whose program was evaluated.

    Args:
        competition (`str`, *optional*):
            Id of its competition.
        prompt_name (`str`):
            Name of the prompt that rollouts are compared by.
        prompt_kind (`str`):
            `"scratch"`, `"improve"`, or what a [`~trl_mle.trainer.part.Part`] calls it.
        parent_id (`str`, *optional*), parent_score (`float`, *optional*):
            The solution that the prompt shows, and its score.
        evaluation ([`~trl_mle.rewards.Evaluation`]):
            The evaluation of its program, with a bounded output.
        weight (`float`, *optional*):
            The weight of its advantage; `None` if it is not trained on.
    """

    competition: str | None
    prompt_name: str
    prompt_kind: str
    parent_id: str | None
    parent_score: float | None
    evaluation: Evaluation
    weight: float | None = None

    def beats(self, score: float | None, competitions: Mapping[str, Competition]) -> bool | None:
        """Whether it is better than this score; `None` if there is none, or if our infrastructure failed."""
        if score is None or self.evaluation.infrastructure_failed:
            return None
        own = self.evaluation.score
        if own is None or not own.valid or own.value is None:
            return False
        return competitions[self.competition or ""].better(own.value, score)


def judge(
    inputs: Sequence[Row], evaluations: Sequence[Evaluation], competitions: Mapping[str, Competition]
) -> list[Judged]:
    """
    Puts evaluations beside what was asked.

    Args:
        inputs (`Sequence[dict]`):
            The dataset's columns, and those of [`SCRATCH`].
        evaluations (`Sequence[Evaluation]`):
            One per row.
        competitions (`Mapping[str, Competition]`):
            Those that are trained on, by id.

    Returns:
        `list[Judged]`: One per row.
    """
    return [
        Judged(
            competition=competition_of(row, competitions),
            prompt_name=_prompt_name(row),
            prompt_kind=row["prompt_kind"],
            parent_id=row["parent_id"],
            parent_score=row["parent_score"],
            evaluation=evaluation.shortened(),
        )
        for row, evaluation in zip(inputs, evaluations, strict=True)
    ]


def competition_of(row: Row, competitions: Mapping[str, Competition]) -> str | None:
    """The id in the dataset's column, or the only competition's."""
    if len(competitions) == 1:
        return row.get("competition") or next(iter(competitions))
    return row.get("competition")


def _prompt_name(row: Row) -> str:
    """Few rollouts share an improve prompt, so those of a competition count as one."""
    if row["prompt_kind"] == "scratch":
        return hashlib.sha256(json.dumps(row["prompt"], default=str).encode()).hexdigest()[:16]
    return f"{row['prompt_kind']} {row.get('competition')}"
