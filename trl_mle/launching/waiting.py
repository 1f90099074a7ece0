"""How long processes of a run may wait for one with slow programs."""

import math

import torch
from torch.distributed import distributed_c10d

from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


def extend_ddp_timeout(args: MLEGRPOConfig, programs_s: float) -> None:
    """
    Extends `ddp_timeout` by the seconds that programs may take ([`~trl_mle.rewards.MLEReward.longest_s`]): processes
    wait for each other's programs in collective operations, and an operation that takes longer than `ddp_timeout` ends
    the run.

    The process group already exists: `TrainingArguments` creates it when arguments are parsed, and on a CPU does not
    even pass `ddp_timeout` on. So the group's own timeout is set. The launcher still notices a process that *dies* at
    once.
    """
    args.ddp_timeout += math.ceil(programs_s)
    if torch.distributed.is_initialized():
        distributed_c10d._set_pg_timeout(args.ddp_timeout_delta)
