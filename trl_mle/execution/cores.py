"""The cores that this process may use: some for training, the others for programs."""

import contextlib
import os
from collections.abc import Collection, Iterator


def split_cores(training_cores: int) -> tuple[list[int], list[int]]:
    """Splits the cores that this process may use, by its affinity: the first ones for training, the others for
    programs. Raises `ValueError` if no core would be left for programs."""
    cores = sorted(os.sched_getaffinity(0))
    if training_cores < 0:
        raise ValueError(f"training_cores must be at least 0, got {training_cores}")
    if training_cores >= len(cores):
        raise ValueError(f"training_cores={training_cores} leaves no core for programs: set {len(cores) - 1} at most")
    return cores[:training_cores], cores[training_cores:]


@contextlib.contextmanager
def started_on(cores: Collection[int]) -> Iterator[None]:
    """Context in which processes that this thread starts may use these cores."""
    own = os.sched_getaffinity(0)  # of this thread, as below
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)
