"""The completions of a batch: what each was asked, and the evaluation of its program."""

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
    """A completion whose program was evaluated."""

    competition: str | None
    prompt_kind: str  # `"scratch"`, `"improve"`, or what a part calls it
    parent_id: str | None  # the solution that the prompt shows
    parent_score: float | None
    evaluation: Evaluation  # with a bounded output
    weight: float | None = None  # of its advantage; `None` until it is computed
    idea: str | None = None  # the name of what the prompt asks to fit

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
    """Puts evaluations, one per row, beside what was asked, and bounds their outputs."""
    return [
        Judged(
            competition=competition_of(row, competitions),
            prompt_kind=row["prompt_kind"],
            parent_id=row["parent_id"],
            parent_score=row["parent_score"],
            idea=row.get("idea"),
            evaluation=evaluation.shortened(),
        )
        for row, evaluation in zip(inputs, evaluations, strict=True)
    ]


def competition_of(row: Row, competitions: Mapping[str, Competition]) -> str | None:
    """The id in the dataset's column, or the only competition's."""
    if len(competitions) == 1:
        return row.get("competition") or next(iter(competitions))
    return row.get("competition")
