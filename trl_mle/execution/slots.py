"""The slots of a machine, shared by all executors of a user, and the cores that programs leave to training."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trl_mle.execution.folders import TMP, is_own_folder
from trl_mle.waits import waiting_for


POLL_S = 0.001


class Closed(Exception):
    """The executor was closed, or the program was cancelled, while waiting for a slot."""


@dataclass(frozen=True)
class Slot:
    """Where one program runs at a time."""

    index: int  # among the executor's slots
    number: int  # unique among the slots in use on this machine
    cpus: tuple[int, ...] = ()  # that the program is pinned to, if it is pinned
    gpu: str | None = None  # that it may use, as in `CUDA_VISIBLE_DEVICES`
    locks: tuple[int, ...] = ()  # descriptors that hold it


class Slots:
    """Hands out slots, each to one program at a time, across all processes of this user on this machine.

    A slot is held by file locks (`flock`), one for each of its cores, which the kernel frees if a process dies. After
    it got a slot, a process gives the others time to go first. The arguments are those of [`LocalExecutor`]; `folder`
    has the lock files of all processes."""

    def __init__(
        self,
        max_parallel: int | None,
        threads: int,
        gpus: Sequence[str] = (),
        folder: Path | None = None,
        training_cores: int = 0,
    ):
        _, self.cores = split_cores(training_cores)  # those of all slots; one that is not pinned may use any of them
        cores = self.cores
        count = max_parallel or min(max(1, len(cores) // threads), len(gpus) or len(cores))
        if gpus and count > len(gpus):
            raise ValueError(f"max_parallel={count} programs cannot have a GPU each: gpus names {len(gpus)}")
        self.slots = []
        is_pinned = count * threads <= len(cores)
        for i in range(count):
            cpus = tuple(cores[i * threads : (i + 1) * threads]) if is_pinned else ()
            self.slots.append(Slot(i, cpus[0] if is_pinned else 2000 + i, cpus, gpus[i] if gpus else None))
        self.folder = folder or lock_folder()
        self._turn = threading.Lock()
        self._passed_at = 0.0

    def _lock(self, name: str) -> int | None:
        """A descriptor that holds the lock, or `None` if another process holds it."""
        fd = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def _try(self, slot: Slot) -> Slot | None:
        """The slot with all its locks, or `None` if any is taken."""
        names = [f"core-{cpu}" for cpu in slot.cpus] or [f"slot-{slot.index}"]
        if slot.gpu is not None:
            names.append(f"gpu-{slot.gpu.replace('/', '-')}")
        held: list[int] = []
        for name in names:
            fd = self._lock(name)
            if fd is None:
                _unlock(held)
                return None
            held.append(fd)
        return replace(slot, locks=tuple(held))

    @contextlib.contextmanager
    def take(self, closed: threading.Event) -> Iterator[Slot]:
        """Waits for a free slot and holds it; raises `Closed` if `closed` was set before one was free."""
        with self._turn:  # one thread of a process at a time
            if closed.is_set():
                raise Closed
            time.sleep(max(0.0, self._passed_at + 2 * POLL_S - time.monotonic()))
            while (slot := next(filter(None, map(self._try, self.slots)), None)) is None:
                if closed.wait(POLL_S):
                    raise Closed
            self._passed_at = time.monotonic()
        try:
            yield slot
        finally:
            _unlock(slot.locks)

    @contextlib.contextmanager
    def take_number(self, number: int) -> Iterator[Slot]:
        """Waits for a slot beside the others, with this number, for programs that end within a moment."""
        with open(self.folder / f"number-{number}", "w") as lock:
            with waiting_for("another executor's check to end"):
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield Slot(len(self.slots), number)
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked meanwhile has a copy of the descriptor


def split_cores(training_cores: int) -> tuple[list[int], list[int]]:
    """Splits the cores that this process may use, by its affinity: the first ones for training, the others for
    programs. Raises `ValueError` if no core would be left for programs."""
    cores = sorted(os.sched_getaffinity(0))
    if not 0 <= training_cores < len(cores):  # programs need one
        raise ValueError(f"training_cores must be from 0 to {len(cores) - 1} here, got {training_cores}")
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


def lock_folder() -> Path:
    """The folder of the lock files of all of this user's processes: the first name that no other user has taken."""
    folder = usual = TMP / f"trl_mle-slots-{os.geteuid()}"
    number = 0
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if is_own_folder(folder):
            return folder
        number += 1
        folder = usual.with_name(f"{usual.name}-{number}")


def _unlock(held: Sequence[int]) -> None:
    for fd in held:
        fcntl.flock(fd, fcntl.LOCK_UN)  # closing is not enough if a process forked in the meantime has a copy
        os.close(fd)
