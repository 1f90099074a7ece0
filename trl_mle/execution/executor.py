"""What every executor has in common: programs in, results out."""

import enum
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from trl_mle.competitions import Competition
from trl_mle.execution.program import Limits, Program


# How long after a program's timeout its report may take, before it counts as lost.
GRACE_S = 30.0
START_TIMEOUT_S = 120.0


class Outcome(enum.StrEnum):
    """How an execution ended."""

    OK = "ok"  # exit code 0, with or without a submission
    ERROR = "error"  # another exit code
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"  # killed by the kernel or by our watch, or refused by the address-space limit
    OUTPUT_LIMIT = "output_limit"
    KILLED = "killed"  # by a signal that was not ours
    INFRASTRUCTURE = "infrastructure"  # our failure: never started, or the sandbox broke


@dataclass(frozen=True)
class ExecutionResult:
    """
    What one execution came to.

    Attributes:
        outcome (`Outcome`):
            How it ended.
        detail (`str`):
            The evidence for the outcome, in one line; empty for `Outcome.OK`.
        duration_s (`float` or `None`):
            Δt in seconds: wall clock from the program's first line to its end, on CLOCK_MONOTONIC. Neither queueing nor
            the set-up of the sandbox nor the warm parent's imports are in it. `None` only with `Outcome.INFRASTRUCTURE`.
        cpu_s (`float`):
            CPU time of the program and all its children, in seconds.
        max_rss_mb (`float`):
            Peak resident memory of its main process, in MB.
        exit_code (`int` or `None`):
            Exit code; minus the signal's number if a signal ended it.
        stdout (`str`), stderr (`str`):
            Bounded; undecodable bytes are replaced.
        submission (`bytes` or `None`):
            Contents of submission.csv.
        queue_wait_s (`float`):
            Seconds between `submit` and the slot.
        slot (`int`):
            The slot it ran in.
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
    slot: int = 0


class ProgramFuture(Future[ExecutionResult]):
    """
    The result of a program that is queued, runs, or has ended.

    Attributes:
        started (`float` or `None`):
            When it got its slot, by `time.monotonic()`; `None` while it is queued, and where the executor does not report it (see
            [`Executor.tells_start`]).
    """

    started: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.stopping = threading.Event()  # what the executor looks at while the program runs

    def stop(self) -> None:
        """Ends the program, for one that nobody waits for any more: it does not start, or its outcome is `killed`."""
        if not self.cancel():
            self.stopping.set()

    def set_running_or_notify_cancel(self) -> bool:
        self.started = time.monotonic()
        return super().set_running_or_notify_cancel()


class MadeAgain:
    """
    What a pickle holds of an object is what it was made with. So an executor starts where it lands: another process has slots,
    sockets and children of its own, and programs of both share the machine's slots.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = args, kwargs
        return self

    def __reduce__(self) -> tuple[partial, tuple]:
        args, kwargs = self._arguments
        return partial(type(self), *args, **kwargs), ()

    _arguments: tuple[tuple, dict[str, Any]]


class Executor(Protocol):
    """
    An untrusted program in, an [`ExecutionResult`] out. Nothing else is asked of a back end.

    A back end may inherit from this class: [`run_many`] and the `with` statement are then made of `submit` and `close`.
    """

    @property
    def limits(self) -> Limits:
        """What a program may use, as the executor enforces it."""
        ...

    @property
    def slots(self) -> int | None:
        """How many programs run at a time, those of all training processes together; `None` where it is not known."""
        ...

    @property
    def tells_start(self) -> bool:
        """Whether a future's `started` says since when a program runs."""
        ...

    @property
    def description(self) -> str:
        """How programs run, in one line."""
        ...

    @property
    def identity(self) -> dict[str, Any]:
        """
        All that a program's result depends on besides the program and the competition, as JSON can hold it. Of two executors
        with the same, one may be given the other's results.
        """
        return {"executor": f"{type(self).__module__}.{type(self).__qualname__}", **asdict(self.limits)}

    def check(self, competition: Competition) -> None:
        """
        Finds out whether programs for a competition can be run, before there are any.

        Args:
            competition ([`~trl_mle.competitions.Competition`]):
                What programs will solve.

        Raises:
            [`SandboxError`]: They cannot.
        """
        ...

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """Queues a program; the future never raises for what the program does."""
        ...

    def run_many(self, programs: Iterable[tuple[Program, Competition]]) -> list[ExecutionResult]:
        """Runs programs, each with its competition; returns their results in the same order."""
        futures = [self.submit(program, competition) for program, competition in programs]
        return [future.result() for future in futures]

    def longest_s(self, programs: int) -> float:
        """Longest that it may take, in seconds, if every training process submits so many programs at once."""
        ...

    def close(self) -> None:
        """Ends every program, running or queued."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def longest_round_s(timeout_s: float) -> float:
    """
    Longest that a round of programs, one in each slot, may take, in seconds: until their reports are lost, until nothing
    else runs (the others' reports may be lost, too), as long again, then alone, and a control program.
    """
    return 4 * (timeout_s + GRACE_S) + GRACE_S
