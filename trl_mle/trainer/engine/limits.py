"""The program limits that the prompts of a run state."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from trl import GRPOTrainer

from trl_mle.execution import Limits
from trl_mle.prompts import keep_packages
from trl_mle.rewards import MLEReward
from trl_mle.trainer.asking.dataset import scratch_dataset, scratch_rows
from trl_mle.trainer.asking.solution_prompts import SolutionPrompts
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


if TYPE_CHECKING:
    from trl_mle.competitions import Competition


class LimitsTrainer(GRPOTrainer):
    """[`~trl.GRPOTrainer`] whose prompts state the executor's limits, and list the same packages when a run is resumed."""

    args: MLEGRPOConfig
    competitions: "dict[str, Competition]"
    limits: Limits
    makes_dataset: bool
    scratch_rows: dict[str, dict[str, Any]]  # by competition, where it makes the dataset
    solution_prompts: SolutionPrompts

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """
        See [`~transformers.Trainer`]. The stated limits are stored as `limits.json` in the output folder; a resumed
        run reads the packages from there.
        """
        limits = None
        if self.is_world_process_zero():  # other machines may not have access to the files
            folder = Path(self.args.output_dir or "")
            begun_in = Path(resume_from_checkpoint).parent if isinstance(resume_from_checkpoint, str) else folder
            limits = keep_packages(self.limits, folder, begun_in if resume_from_checkpoint else None)
        [limits] = broadcast_object_list([limits])
        if limits != self.limits:
            self.limits = self.solution_prompts.limits = limits
            if self.makes_dataset:
                self.scratch_rows = scratch_rows(list(self.competitions.values()), limits, self.args.begin_program)
                self.train_dataset = scratch_dataset(list(self.scratch_rows.values()), self.args)
        return super().train(resume_from_checkpoint, *args, **kwargs)


def find_limits(reward_funcs: Any, limits: Limits | None, deprecated: Mapping[str, Any]) -> Limits:
    """
    The limits that prompts state, the same on all processes.

    Args:
        reward_funcs (`RewardFunc | list[RewardFunc]`):
            The trainer's reward functions. If an [`~trl_mle.rewards.MLEReward`] is among them, its executor defines
            the limits.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Limits to use otherwise.
        deprecated (`Mapping[str, Any]`):
            The trainer's deprecated arguments `timeout_s` and `memory_mb`; `None` if not given.
    """
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    executors = [function.executor for function in functions if isinstance(function, MLEReward)]
    given = {name: value for name, value in deprecated.items() if value is not None}
    if given:
        message = "MLEGRPOTrainer: timeout_s and memory_mb will be removed in 0.3: prompts state the limits of MLEReward's executor"
        warnings.warn(f"{message}; without one give limits=Limits(timeout_s, memory_mb)", FutureWarning, stacklevel=3)
    if not executors:
        return limits if limits is not None else Limits(**given)
    if limits is not None:
        raise ValueError("limits: prompts state the limits of the MLEReward's executor: leave this argument out")
    [found] = broadcast_object_list([executors[0].limits if PartialState().is_main_process else None])
    return found
