"""A generation batch: its completions, what each was asked, and the evaluations of their programs."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trl_mle.competitions import Competition
from trl_mle.rewards import Evaluation


Row = dict[str, Any]  # of the dataset, see `from_scratch`

# Columns about the prompt, with their values for a prompt from scratch
SCRATCH: Row = {"prompt_kind": "scratch", "parent_id": None, "parent_score": None}


@dataclass(frozen=True)
class Completion:
    """A completion whose program was evaluated."""

    competition: str | None
    prompt_kind: str  # `"scratch"` or `"improve"`
    parent_id: str | None  # the solution that the prompt shows
    parent_score: float | None
    evaluation: Evaluation  # with a bounded output
    weight: float | None = None  # of its advantage; `None` until it is computed
    idea: str | None = None  # the name of what the prompt asks to fit
    staleness: int | None = None  # steps since it was sampled, if others were sampled since

    @classmethod
    def of(cls, row: Row, evaluation: Evaluation) -> "Completion":
        columns: dict[str, Any] = {name: row.get(name) for name in ("competition", *SCRATCH, "idea", "staleness")}
        return cls(evaluation=evaluation.shortened(), **columns)

    def beats(self, score: float | None, competitions: Mapping[str, Competition]) -> bool | None:
        """Whether it is better than this score; `None` if there is none, or if our infrastructure failed."""
        if score is None or self.evaluation.infrastructure_failed:
            return None
        own = self.evaluation.score
        if own is None or not own.valid or own.value is None:
            return False
        return competitions[self.competition or ""].better(own.value, score)


@dataclass
class Batch:
    """A generation batch, which the trainer's hooks fill in while TRL samples and scores it."""

    completions: Sequence[Completion] = ()  # of this process
    advantages: torch.Tensor | None = None  # of all processes, unweighted, if they replace TRL's

    def replaced(self, stock: torch.Tensor, logged: deque[float], local: slice) -> torch.Tensor:
        """The advantages that replace TRL's (`stock`), for this process's completions, and for all in TRL's log."""
        assert self.advantages is not None
        for _ in self.advantages:
            logged.pop()
        logged.extend(self.advantages.tolist())
        return self.advantages[local].to(stock)

    def weighted(self, advantages: torch.Tensor) -> torch.Tensor:
        """Advantages times the duration weights."""
        return advantages * advantages.new_tensor([item.weight for item in self.completions])

    def paid(self, advantages: torch.Tensor, weighted: torch.Tensor) -> list[tuple]:
        """For each completion: unweighted and weighted advantage, weight and Δt."""
        rows = zip(advantages.tolist(), weighted.tolist(), self.completions, strict=True)
        return [(plain, paid, item.weight, item.evaluation.duration_s) for plain, paid, item in rows]


def from_scratch(row: Row, competitions: Mapping[str, Competition]) -> Row:
    """A row of the dataset with the columns of SCRATCH, and the id of the only competition where it names none."""
    if len(competitions) == 1 and not row.get("competition"):
        row = row | {"competition": next(iter(competitions))}
    return row | SCRATCH
