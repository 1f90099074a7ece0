"""The common interface of executors: programs in, results out."""

import enum
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits, Program


GRACE_S = 30.0  # after a program's timeout, until its report counts as lost
START_TIMEOUT_S = 120.0


class Outcome(enum.StrEnum):
    """How an execution ended."""

    OK = "ok"  # exit code 0, with or without a submission
    ERROR = "error"  # another exit code
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"  # killed by the kernel or by our monitor, or refused by the address-space limit
    OUTPUT_LIMIT = "output_limit"  # its files are too large, and the kernel does not limit them
    KILLED = "killed"  # by a signal not sent by us
    INFRASTRUCTURE = "infrastructure"  # our failure: never started, or the sandbox broke


@dataclass(frozen=True)
class ExecutionResult:
    """
    The result of one execution.

    Attributes:
        outcome (`Outcome`), detail (`str`):
            How it ended, and the evidence for it in one line; for `Outcome.OK`, why its submission is not read, if so.
        duration_s (`float` or `None`):
            Δt in seconds: wall-clock time from the program's first line to its end, without queueing, sandbox set-up
            and the warm parent's imports. `None` only with `Outcome.INFRASTRUCTURE`.
        cpu_s (`float`), max_rss_mb (`float`):
            CPU time in seconds of the program and all its children, and peak memory of its main process in MB.
        exit_code (`int` or `None`):
            Exit code; the negative signal number if a signal ended it.
        stdout (`str`), stderr (`str`):
            Output, of which the middle is left out if it is long; undecodable bytes are replaced.
        submission (`bytes` or `None`), queue_wait_s (`float`):
            Contents of submission.csv, and seconds between `submit` and the start.
    """

    outcome: Outcome
    detail: str = ""
    duration_s: float | None = None
    cpu_s: float = 0.0
    max_rss_mb: float = 0.0
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    submission: bytes | None = None
    queue_wait_s: float = 0.0


class ProgramFuture(Future[ExecutionResult]):
    """The result of a program that is queued, running or finished."""

    started: float | None = None  # when it got its slot, by `time.monotonic()`

    def __init__(self) -> None:
        super().__init__()
        self.stopping = threading.Event()  # checked by the executor while the program runs

    def stop(self) -> None:
        """Ends a program whose result is no longer needed: it does not start, or its outcome is `killed`."""
        if not self.cancel():
            self.stopping.set()

    def follow(self, worker: Future[ExecutionResult]) -> None:
        """Takes a worker's result, or its exception, which ends the run: nobody else would look."""

        def settle(worker: Future[ExecutionResult]) -> None:
            if self.cancelled():
                return
            if (error := worker.exception()) is not None:
                self.set_exception(error)
            else:
                self.set_result(worker.result())

        worker.add_done_callback(settle)

    def set_running_or_notify_cancel(self) -> bool:
        self.started = time.monotonic()
        return super().set_running_or_notify_cancel()


class Executor(ABC):
    """
    Executes untrusted programs: program → [`ExecutionResult`]. A back end implements the abstract methods.

    `executor: my_module.MyExecutor` in a recipe calls the constructor with `timeout_s`, `memory_mb`,
    `threads_per_program` and `max_parallel` (`None`: as many as fit), and with `gpus`, `sandbox`, `python` or
    `training_cores` if the run sets them, all as keyword arguments. One that runs programs in threads returns futures
    that [`~ProgramFuture.follow`] theirs. An executor pickles as its constructor's arguments.
    """

    is_local = False  # whether programs run on this machine, on the cores that `training_cores` leaves to them
    _arguments: tuple[tuple, dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = args, kwargs
        return self

    def __init__(self) -> None:  # noqa: B027  # without it, a subclass that defines none would ignore its arguments
        pass

    def __reduce__(self) -> tuple[partial, tuple]:
        args, kwargs = self._arguments
        return partial(type(self), *args, **kwargs), ()

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """Limits of a program, as enforced by the executor."""

    @property
    @abstractmethod
    def description(self) -> str:
        """How programs run, in one line."""

    @abstractmethod
    def check(self, competition: Competition) -> None:
        """Raises [`SandboxError`] if programs for a competition cannot run."""

    @abstractmethod
    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """Queues a program; its future never raises because of the program's behaviour."""

    def run_many(self, programs: Iterable[tuple[Program, Competition]]) -> list[ExecutionResult]:
        """Runs programs, each with its competition; returns their results in the same order."""
        futures = [self.submit(program, competition) for program, competition in programs]
        return [future.result() for future in futures]

    @abstractmethod
    def longest_s(self, programs: int) -> float:
        """Maximum time in seconds, if every training process submits this many programs at once."""

    @abstractmethod
    def close(self) -> None:
        """Ends every program, running or queued."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def longest_round_s(timeout_s: float) -> float:
    """Maximum time of a round of programs in seconds: their reports are lost twice, and a control program runs."""
    return 2 * (timeout_s + GRACE_S) + 2 * GRACE_S
