"""How long the processes of a run may wait for one another: one has slow programs, and the others have none left."""

import math

import torch
from torch.distributed import distributed_c10d

from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


def extend_ddp_timeout(args: MLEGRPOConfig, programs_s: float) -> None:
    """
    Lets processes wait for one another's programs. They wait in collectives, and one that takes longer than `ddp_timeout`
    ends the run. To that, which is for all other work, the time that programs may take is added here.

    The process group is there by now: `TrainingArguments` makes it when arguments are parsed, and on a CPU it does not even
    pass `ddp_timeout` on. So the group's own timeout is set. A process that *dies* is found at once all the same, by its
    launcher.

    Args:
        args ([`MLEGRPOConfig`]):
            Its `ddp_timeout` is extended.
        programs_s (`float`):
            Longest that programs may keep a process waiting, in seconds: [`~trl_mle.rewards.MLEReward.longest_s`] of
            `args.completions_per_process`.
    """
    args.ddp_timeout += math.ceil(programs_s)
    if torch.distributed.is_initialized():
        distributed_c10d._set_pg_timeout(args.ddp_timeout_delta)
