"""The program limits that the prompts of a run state."""

from pathlib import Path

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from trl_mle.execution import Limits
from trl_mle.prompts import keep_packages
from trl_mle.rewards import MLEReward


def kept_limits(limits: Limits, output_dir: Path, checkpoint: Path | None) -> Limits:
    """The limits that a run's prompts state; a resumed run lists the packages that it listed before."""
    kept = [limits]
    if PartialState().is_main_process:  # other machines may not have access to the files
        kept = [keep_packages(limits, output_dir, checkpoint.parent if checkpoint is not None else None)]
    return broadcast_object_list(kept)[0]


def find_limits(reward: MLEReward | None, limits: Limits | None) -> Limits:
    """The limits that prompts state: those of the reward's executor, or else the given ones."""
    if reward is None:
        return limits if limits is not None else Limits()
    if limits is not None:
        raise ValueError("limits: prompts state the limits of the MLEReward's executor: leave this argument out")
    return broadcast_object_list([reward.executor.limits if PartialState().is_main_process else None])[0]
