"""The cores that this process may use: some for training, the others for programs."""

import contextlib
import os
from collections.abc import Collection, Iterator


def split_cores(training_cores: int) -> tuple[list[int], list[int]]:
    """Splits the cores that this process may use, by its affinity (a container or `taskset` may leave it fewer than
    the machine has): the first ones for training, the others for programs. All processes with the same affinity
    split them alike. Raises `ValueError` if no core would be left for programs."""
    cores = sorted(os.sched_getaffinity(0))
    if training_cores < 0:
        raise ValueError(f"training_cores must be at least 0, got {training_cores}")
    if training_cores >= len(cores):
        raise ValueError(
            f"training_cores={training_cores} leaves no core for programs: this process may use {len(cores)}; "
            f"set it to {len(cores) - 1} at most"
        )
    return cores[:training_cores], cores[training_cores:]


@contextlib.contextmanager
def started_on(cores: Collection[int]) -> Iterator[None]:
    """Processes that this thread starts meanwhile may use these cores, whichever it is kept to itself."""
    own = os.sched_getaffinity(0)  # of this thread, as below
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)
