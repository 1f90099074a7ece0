"""What a run's processes keep to: their cores, and how long they wait for each other."""

import contextlib
import math
import os

import torch
from torch.distributed import distributed_c10d

from trl_mle.execution.slots import split_cores
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


def keep_to_training_cores(training_cores: int) -> None:
    """Keeps this process to the cores that programs leave to it: all its threads, and what it starts from now on,
    except programs. Call it when the executor exists. Raises `ValueError` if no core would be left for programs."""
    cores, _ = split_cores(training_cores)
    if not cores:
        return
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), cores)
    if torch.get_num_threads() > len(cores):  # it counted the cores when it was imported
        torch.set_num_threads(len(cores))


def extend_ddp_timeout(args: MLEGRPOConfig, programs_s: float) -> None:
    """
    Extends `ddp_timeout` by the seconds that programs may take ([`~trl_mle.rewards.MLEReward.longest_s`]), because
    processes wait for each other's programs in collective operations.

    `TrainingArguments` has already created the process group, on a CPU without `ddp_timeout`, so the group's own
    timeout is set. The launcher still notices a process that *dies* at once.
    """
    args.ddp_timeout += math.ceil(programs_s)
    if torch.distributed.is_initialized():
        distributed_c10d._set_pg_timeout(args.ddp_timeout_delta)
