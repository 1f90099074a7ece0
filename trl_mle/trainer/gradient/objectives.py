"""Objectives: the advantages of completions that are compared with each other. Derivations: docs/objective.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from trl_mle.trainer.advantages import VALID_STEP, group_advantages
from trl_mle.user_code import import_named


@dataclass(frozen=True)
class Group:
    """Completions that are compared with each other, without those that our infrastructure failed."""

    rewards: torch.Tensor
    progress: torch.Tensor  # the same for all valid ones, and more than any failed one's, see `progress_of`
    quality: torch.Tensor  # of the valid ones, larger is better; NaN for all others
    program: torch.Tensor  # integers that are equal for equal programs


@runtime_checkable
class Objective(Protocol):
    """What training maximises. It is created with the [`MLEGRPOConfig`]."""

    def advantages(self, group: Group) -> torch.Tensor:
        """The advantages of a group, of shape `(n,)`, before any weight; exactly 0 where there is nothing to learn."""
        ...


class Ranked:
    """Valid programs, and the rank of their score or the best of k, see
    [`~trl_mle.trainer.advantages.group_advantages`]."""

    def __init__(self, args: Any):
        self.k = args.max_at_k  # `None` unless it is the objective

    def advantages(self, group: Group) -> torch.Tensor:
        return group_advantages(group.progress, group.quality, self.k, group.program)


# `reward` is TRL's own, and not here
OBJECTIVES: dict[str, Callable[[Any], Objective]] = {"mean_rank": Ranked, "max_at_k": Ranked}


def find_objective(args: Any) -> Objective | None:
    """Creates `args.objective`; `None` for `reward`. Raises `ValueError` if there is no such objective."""
    name: str = args.objective
    if name == "reward":
        return None
    if name in OBJECTIVES:
        return OBJECTIVES[name](args)
    cls: Any = import_named("objective", name)
    is_objective = isinstance(cls, type) and issubclass(cls, Objective)
    if not is_objective:
        raise ValueError(f"objective: {name} is not a class with a method `advantages`: see docs/objective.md")
    return cls(args)


def progress_of(rewards: torch.Tensor, quality: torch.Tensor) -> torch.Tensor:
    """The progress of each completion of a group: the reward for failed ones (NaN if missing); for all valid ones the
    same value, the larger of the lowest failed reward plus 3 and the highest failed reward plus 0.3."""
    failed = rewards[quality.isnan() & ~rewards.isnan()]
    reached = max(failed.min().item() + 3.0, failed.max().item() + VALID_STEP) if len(failed) else 0.0
    return torch.where(quality.isnan() | rewards.isnan(), rewards, reached)
