"""The program limits that the prompts of a run state."""

from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from trl import GRPOTrainer

from trl_mle.execution import Limits
from trl_mle.prompts import keep_packages
from trl_mle.rewards import MLEReward
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


class LimitsTrainer(GRPOTrainer):
    """[`~trl.GRPOTrainer`] whose prompts state the executor's limits, and list the same packages when a run is resumed."""

    args: MLEGRPOConfig
    limits: Limits

    def state_limits(self, limits: Limits) -> None:
        """Makes all prompts state these limits."""
        raise NotImplementedError

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """See [`~transformers.Trainer`]. The stated limits are stored as `limits.json` in the output folder; a resumed
        run reads the packages from there."""
        limits = None
        if self.is_world_process_zero():  # other machines may not have access to the files
            folder = Path(self.args.output_dir or "")
            begun_in = Path(resume_from_checkpoint).parent if isinstance(resume_from_checkpoint, str) else folder
            limits = keep_packages(self.limits, folder, begun_in if resume_from_checkpoint else None)
        [limits] = broadcast_object_list([limits])
        assert limits is not None
        if limits != self.limits:
            self.state_limits(limits)
        return super().train(resume_from_checkpoint, *args, **kwargs)


def find_limits(reward: MLEReward | None, limits: Limits | None) -> Limits:
    """The limits that prompts state, the same on all processes: those of the reward's executor, or else the given
    ones."""
    if reward is None:
        return limits if limits is not None else Limits()
    if limits is not None:
        raise ValueError("limits: prompts state the limits of the MLEReward's executor: leave this argument out")
    [found] = broadcast_object_list([reward.executor.limits if PartialState().is_main_process else None])
    return found
