"""Which cores training keeps to."""

import contextlib
import os

import torch

from trl_mle.execution.cores import split_cores


def keep_to_training_cores(training_cores: int) -> None:
    """
    Keeps this process to the cores that programs leave to it: all its threads, and everything that it starts from now
    on, except programs. Call it when the executor exists, which learns from this process which cores there are. Raises
    `ValueError` if no core would be left for programs.
    """
    cores, _ = split_cores(training_cores)
    if not cores:
        return
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), cores)
    if torch.get_num_threads() > len(cores):  # it counted the cores when it was imported
        torch.set_num_threads(len(cores))
