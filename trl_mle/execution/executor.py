"""Runs untrusted programs: one in a slot at a time, isolated, timed, bounded, and gone when it is over."""

import contextlib
import enum
import fcntl
import hashlib
import json
import logging
import math
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Protocol, Self

from trl_mle.competitions import Competition
from trl_mle.execution import cgroups
from trl_mle.execution import sandbox as _sandbox
from trl_mle.execution.program import InstrumentedProgram, Program
from trl_mle.execution.sandbox import SandboxError
from trl_mle.execution.slots import Closed, Slot, Slots


logger = logging.getLogger(__name__)

TICK_S = 0.5  # how often a program's control group is looked at
# How long after a program's timeout its report may take, before it counts as lost.
GRACE_S = 30.0
NO_BYTES = struct.pack("=I", 0)  # the message that a program has started
CONTROL = "print('control')"  # what any executor that works can run
CONTROL_NUMBER, CHECK_NUMBER = 1998, 1999  # as of slots that no other has
_PROVEN: set[str] = set()  # tiers in which a program has imported what this process' search path has
START_TIMEOUT_S = 120.0
# What a program says whose address space is used up.
OUT_OF_MEMORY_WORDS = ("MemoryError", "Unable to allocate", "std::bad_alloc", "Cannot allocate memory")
REPEATS = 4  # how often an output's limit may be fed with repeats
MAX_FILES = 1024  # that a program may have open


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


class ReportLost(SandboxError):
    """No report came of a program: the process that was to send it died, or was kept from it for too long."""


class ProgramFuture(Future[ExecutionResult]):
    """
    The result of a program that is queued, runs, or has ended.

    Attributes:
        started (`float` or `None`):
            When it got its slot, by `time.monotonic()`; `None` while it is queued, and where the executor does not tell.
    """

    started: float | None = None

    def set_running_or_notify_cancel(self) -> bool:
        self.started = time.monotonic()
        return super().set_running_or_notify_cancel()


class Executor(Protocol):
    """An untrusted program in, an [`ExecutionResult`] out."""

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """Queues a program; the future never raises for what the program does."""
        ...

    def longest_s(self, programs: int) -> float:
        """Longest that it may take, in seconds, if every training process submits so many programs at once."""
        ...


@dataclass
class _Answer:
    """What came from the sandbox of one program."""

    report: dict[str, Any] = field(default_factory=dict)
    submission: bytes | None = None
    started: float | None = None  # when the program did, by `time.monotonic()`
    over_limit: bool = False  # whether an output was too long
    lost: str = ""  # why there is no report

    def read(self, received: bytes) -> None:
        """Takes what was received after the message that the program had started."""
        length = 4 + struct.unpack("=I", received[:4])[0] if len(received) >= 4 else 4
        if not 4 < length <= len(received):
            self.lost = "the sandbox died"
            return
        self.report = json.loads(received[4:length])
        if "error" in self.report:
            if self.started is not None:  # it may be the program's doing
                self.lost = self.report["error"]
        elif (size := self.report["submission_bytes"]) is not None:
            self.submission = received[length:]
            if len(self.submission) != size:
                self.lost = "the sandbox died"


class _Output:
    """One bounded output stream. Repeats of a milestone's line, as a loop prints them, do not count."""

    def __init__(self, limit: int, nonce: str):
        self.limit = limit
        self.nonce = nonce.encode()
        self.content = bytearray()
        self.fed = 0

    def feed(self, chunk: bytes) -> bool:
        """Takes a chunk; returns whether the stream is still within its limit."""
        self.content += chunk
        if len(self.content) > self.limit:
            self._drop_repeats()
        self.fed += len(chunk)
        # The repeats of one line of ours may be many, but not so many that dropping them keeps the caller from its work.
        within = len(self.content) <= self.limit and self.fed <= REPEATS * self.limit
        del self.content[self.limit :]
        return within

    def _drop_repeats(self) -> None:
        if not self.nonce:
            return
        seen: set[bytes] = set()
        kept = bytearray()
        for line in bytes(self.content).splitlines(keepends=True):
            if self.nonce in line:
                if line in seen:
                    continue
                seen.add(line)
            kept += line
        self.content = kept

    def text(self) -> str:
        self._drop_repeats()
        return self.content.decode("utf-8", errors="replace")


class _Zygote:
    """The warm parent of all programs of one competition (`zygote.py`), as seen from outside."""

    def __init__(self, tier: str, public_dir: Path, run_dir: Path, packages: Sequence[str], fixed: dict):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lock = threading.Lock()
        self.input_dir = public_dir
        if tier == "none":  # nothing would keep a program from changing the data of all that come after it
            self.input_dir = Path(tempfile.mkdtemp(dir=run_dir)) / "input"
            shutil.copytree(public_dir, self.input_dir)
        if tier == "landlock":
            grants = _sandbox.landlock_grants(public_dir, fixed["gpus"])
            fixed = fixed | {"grants": grants, "keep_capabilities": _sandbox.landlock_capabilities(public_dir)}
        with theirs, tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile() as errors:
            json.dump({"packages": packages, "fixed": fixed}, stdin)
            stdin.seek(0)
            self.process = subprocess.Popen(
                _sandbox.zygote_command(tier, theirs.fileno(), public_dir, run_dir, fixed["gpus"]),
                env=_sandbox.environment(fixed["threads"]),
                cwd="/",
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the caller, who then closes the executor
            )
            theirs.close()
            self.control.settimeout(START_TIMEOUT_S)
            try:
                ready = self.control.recv(16)
            except TimeoutError:
                ready = b""
            if ready != b"ready":
                self.close()
                errors.seek(0)
                lines = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
                raise SandboxError(f"it did not start: {lines[-1]}")
        self.control.settimeout(None)

    def start_program(self, job_socket: socket.socket) -> None:
        with self.lock:
            socket.send_fds(self.control, [b"program"], [job_socket.fileno()])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)  # a process that was forked meanwhile has a copy of the descriptor
        self.control.close()  # the zygote ends on this, and everything in its pid namespace with it
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class LocalExecutor:
    """
    Runs programs on this machine, each in a sandbox of its own, at most `max_parallel` at a time.

    The usual packages (numpy, pandas, scikit-learn) are imported once per competition, by a warm parent inside the
    sandbox that forks one child per program; a program pays neither for them nor for the interpreter's start.

    Args:
        max_parallel (`int`, *optional*):
            Number of slots. Defaults to the number of usable cores divided by `threads_per_program`. All executors of one
            user on a machine share its slots (see `slots.py`): several training processes never run more programs than
            one would.
        timeout_s (`float`, *optional*, defaults to `60.0`):
            Wall-clock limit of one program, in seconds.
        memory_mb (`int`, *optional*, defaults to `4096`):
            Limit of one program's memory in MB: address space of each of its processes (beyond what the warm parent's
            imports have mapped), resident memory of all.
        disk_mb (`int`, *optional*, defaults to `1024`):
            Size in MB of the tmpfs behind its working folder, /tmp and /dev/shm.
        output_kb (`int`, *optional*, defaults to `1024`):
            Limit of stdout, and of stderr, in KB. A program that writes more is ended.
        submission_mb (`int`, *optional*, defaults to `64`):
            Largest submission.csv that is read, in MB.
        max_processes (`int`, *optional*, defaults to `256`):
            Processes and threads that one program may have.
        threads_per_program (`int`, *optional*, defaults to `1`):
            Cores of one slot. Slots are pinned to cores of their own where there are enough.
        gpus (`Sequence[str]`, *optional*):
            GPUs for programs, one for each slot, as `CUDA_VISIBLE_DEVICES` names them. The address space of a program is
            not limited then, because CUDA maps more than there is. Defaults to none.
        start (`str`, *optional*, defaults to `"warm"`):
            `"warm"`: as above. `"cold"`: each program gets a new interpreter, and does its imports itself.
        packages (`Sequence[str]`, *optional*):
            Modules that the warm parent imports; those that are not installed are left out. Defaults to the usual parts
            of numpy, pandas, scipy and scikit-learn.
        sandbox (`str`, *optional*, defaults to `"auto"`):
            `"auto"`: the strongest tier of this machine, or refusal. `"bubblewrap"`, `"landlock"`: that tier, or refusal;
            see `sandbox.py` for what each guarantees. `"none"`: no isolation.

    Raises:
        `SandboxError`: Programs cannot be isolated on this machine; the message says what to install.

    Example:

    ```python
    >>> from trl_mle.competitions import load_competition
    >>> from trl_mle.execution import LocalExecutor

    >>> with LocalExecutor(max_parallel=2, timeout_s=60) as executor:
    ...     [result] = executor.run_many([("print('hello')", load_competition("digits"))])
    >>> result.outcome, result.stdout
    (<Outcome.OK: 'ok'>, 'hello\\n')
    ```
    """

    def __init__(
        self,
        max_parallel: int | None = None,
        timeout_s: float = 60.0,
        memory_mb: int = 4096,
        disk_mb: int = 1024,
        output_kb: int = 1024,
        submission_mb: int = 64,
        max_processes: int = 256,
        threads_per_program: int = 1,
        gpus: Sequence[str] = (),
        start: Literal["warm", "cold"] = "warm",
        packages: Sequence[str] = _sandbox.PACKAGES,
        sandbox: str = "auto",
    ):
        self._slots = Slots(max_parallel, threads_per_program, gpus)
        self.max_parallel = len(self._slots.slots)
        self.timeout_s = timeout_s
        self.memory_mb = memory_mb
        self.disk_mb = disk_mb
        self.output_bytes = output_kb << 10
        self.max_processes = max_processes
        self._packages = packages if start == "warm" else ()
        self._fixed = {
            "start": start,
            "timeout_s": timeout_s,
            "memory_mb": memory_mb,
            "disk_mb": disk_mb,
            "submission_mb": submission_mb,
            "max_processes": max_processes,
            "max_files": min(MAX_FILES, max(64, _open_files() // (self.max_parallel + 1))),
            "threads": threads_per_program,
            "gpus": bool(gpus),
            "input": _sandbox.INPUT,
            "scratch": _sandbox.SCRATCH,
            "python_folders": _sandbox.python_folders(),
        }
        self._run_dir, self._run_dir_lock = _make_run_dir()
        # The files that a program writes are memory, too.
        self._groups = self._make_groups(memory_mb + disk_mb)
        self._zygotes: dict[Path, _Zygote] = {}
        self._checked: set[Path] = set()
        self._job_sockets: set[socket.socket] = set()
        self._zygotes_lock = threading.Lock()
        self._closed = threading.Event()
        self._threads = ThreadPoolExecutor(self.max_parallel, thread_name_prefix="trl_mle-slot")
        try:
            self.tier = self._choose_tier(sandbox)
        except BaseException:
            self.close()
            raise

    def _make_groups(self, memory_mb: int) -> list[cgroups.ControlGroup]:
        """One control group for each slot, and the last one for control programs."""
        names = [f"{self._run_dir.name}.{index}" for index in range(self.max_parallel + 1)]
        try:
            return [cgroups.ControlGroup(cgroups.parents(), name, memory_mb, self.max_processes) for name in names]
        except OSError as error:
            logger.warning("control groups are not used: %s", error)
            return [cgroups.ControlGroup((), name, memory_mb, self.max_processes) for name in names]

    def _choose_tier(self, sandbox: str) -> str:
        """The first tier that works, proven by trying."""
        problems = []
        for tier in _sandbox.candidate_tiers(sandbox):
            self._fixed["tier"] = tier
            self._fixed["seccomp"] = _sandbox.seccomp_filter(tier).hex() if tier != "none" else ""
            try:
                _sandbox.check_available(tier)
                if tier != "none":
                    self._check_isolation(tier)
            except (SandboxError, OSError) as error:
                problems.append(f"{tier}: {error}")
                continue
            for problem in problems:
                logger.warning("programs are isolated by %s, because a stronger tier does not work: %s", tier, problem)
            return tier
        raise SandboxError(f"programs cannot be isolated on this machine: {'; '.join(problems)}", _sandbox.REMEDY)

    @property
    def description(self) -> str:
        """How programs run here, in one line."""
        isolated = "are not isolated and run" if self.tier == "none" else f"are isolated by {self.tier}"
        bounded = ", in control groups" if any(group.folders for group in self._groups) else ""
        return f"programs {isolated}, {self.max_parallel} at a time on {os.cpu_count()} cores{bounded}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every program, running or queued, and every process of the executor."""
        self._closed.set()
        with self._zygotes_lock:
            for zygote in self._zygotes.values():
                zygote.close()
            self._zygotes.clear()
        for job_socket in tuple(self._job_sockets):  # without a pid namespace, a program's init ends on this
            with contextlib.suppress(OSError):
                job_socket.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(wait=True)  # what is queued finds it closed
        for group in self._groups:
            group.remove()
        shutil.rmtree(self._run_dir, ignore_errors=True)
        self._run_dir_lock.close()

    def check(self, competition: Competition) -> None:
        """
        Starts what all programs of a competition share, which the first of them would otherwise do.

        Args:
            competition ([`Competition`]):
                What programs will solve.

        Raises:
            `SandboxError`: Its labels lie where programs can read, or a program in the sandbox cannot import what every
                prompt says is installed.
        """
        self._check_labels(competition)
        with self._slots.take(self._closed) as slot:
            self._zygote(competition.public_dir.absolute(), slot)

    def _check_labels(self, competition: Competition) -> None:
        if self.tier != "none" and competition.public_dir not in self._checked:
            _sandbox.check_labels_hidden(competition.id, competition.public_dir)
            self._checked.add(competition.public_dir)

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """
        Queues a program.

        Args:
            program (`str` or [`InstrumentedProgram`]):
                Python source. Of an instrumented program the source with the milestone prints is run, while the file on
                disk and the lines of tracebacks are the original's.
            competition ([`Competition`]):
                Its public folder is what the program finds as `input/`.

        Returns:
            [`ProgramFuture`]: It never raises for what the program does.

        Raises:
            `SandboxError`: The competition's labels lie where programs can read.
        """
        self._check_labels(competition)
        future = ProgramFuture()  # a thread's own would say that a program runs which waits for a slot

        def settle(inner: "Future[ExecutionResult]") -> None:
            if future.cancelled():
                return
            if (error := inner.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(inner.result())

        inner = self._threads.submit(self._execute, program, competition.public_dir, time.monotonic(), future)
        inner.add_done_callback(settle)
        return future

    def run_many(self, programs: Iterable[tuple[Program, Competition]]) -> list[ExecutionResult]:
        """Runs programs, each with its competition; returns their results in the same order."""
        futures = [self.submit(program, competition) for program, competition in programs]
        return [future.result() for future in futures]

    def longest_s(self, programs: int) -> float:
        """
        Longest that it may take, in seconds, until all results are there if every training process of this machine submits
        so many programs at once: all of them run into their timeout, in the slots that the processes share, and in each
        round reports are lost.
        """
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of a launcher
        rounds = math.ceil(processes * programs / self.max_parallel)
        return START_TIMEOUT_S + rounds * longest_round_s(self.timeout_s)

    def _zygote(self, public_dir: Path, slot: Slot) -> _Zygote:
        with self._zygotes_lock:
            if self._closed.is_set():
                raise SandboxError("the executor is closed")
            zygote = self._zygotes.get(public_dir)
            if zygote is not None and zygote.process.poll() is not None:  # killed from outside
                zygote.close()
                zygote = None
            if zygote is None:
                zygote = _Zygote(self.tier, public_dir, self._run_dir, self._packages, self._fixed)
                try:
                    if self.tier not in _PROVEN:
                        self._check_imports(zygote, slot)
                        _PROVEN.add(self.tier)
                except BaseException:
                    zygote.close()
                    raise
                self._zygotes[public_dir] = zygote
            return zygote

    def _check_imports(self, zygote: _Zygote, slot: Slot) -> None:
        """Raises `SandboxError` if a program lacks a package: all would fail, and the policy would be charged for it."""
        result = self._run(_sandbox.IMPORTS, zygote, slot, 0.0)
        if result.outcome is not Outcome.OK:
            left_out = ", ".join(_sandbox.search_path().left_out)
            raise SandboxError(
                f"programs cannot import the usual packages inside the sandbox ({self.tier}): {result.detail}",
                f"Install them in {sys.prefix}, readable for everyone: programs see the folders on sys.path, but not what "
                f"links there point to" + (f", and not {left_out}, where more than packages lies" if left_out else ""),
            )

    def _execute(self, program: Program, public_dir: Path, submitted: float, future: ProgramFuture) -> ExecutionResult:
        index = -1
        try:
            with self._slots.take(self._closed) as slot:
                if not future.set_running_or_notify_cancel():
                    raise Closed
                index, queue_wait_s = slot.index, time.monotonic() - submitted
                zygote = self._zygote(public_dir.absolute(), slot)
                try:
                    return self._run(program, zygote, slot, queue_wait_s)
                except ReportLost as error:
                    if zygote.process.poll() is not None or self._closed.is_set():
                        raise
                    lost = str(error)
            try:
                with self._slots.take_all(self._closed, self.timeout_s + GRACE_S) as slot:
                    return self._run(
                        program, self._zygote(public_dir.absolute(), slot), slot, queue_wait_s, alone=True
                    )
            except (OSError, SandboxError, Closed) as error:
                raise ReportLost(f"{lost}; tried again alone: {error or type(error).__name__}") from error
        except (OSError, SandboxError, Closed) as error:
            waited = time.monotonic() - submitted
            problem = f"{type(error).__name__}: {error}"
            return ExecutionResult(Outcome.INFRASTRUCTURE, problem, queue_wait_s=waited, slot=index)

    def _run(
        self,
        program: Program,
        zygote: _Zygote,
        slot: Slot,
        queue_wait_s: float,
        limit_s: float | None = None,
        alone: bool = False,
    ) -> ExecutionResult:
        """
        Runs a program in a slot.

        Args:
            limit_s (`float`, *optional*):
                Seconds until its report is lost. Defaults to `GRACE_S` more than its timeout.
            alone (`bool`, *optional*, defaults to `False`):
                Whether nothing else of ours runs. A lost report is the program's own failure then, if it had started
                and a control program ends well beside it.

        Raises:
            `ReportLost`: No report came, and that is not known to be the program's failure.
        """
        if isinstance(program, str):
            program = InstrumentedProgram(source=program, original=program, milestones=(), nonce="")
        digest = hashlib.sha256(program.original.encode("utf-8", errors="surrogatepass")).digest()
        own_uid = self._fixed["tier"] == "landlock" and os.geteuid() == 0
        job: dict[str, Any] = {
            "source": program.source,
            "original": program.original,
            "inserted_lines": program.inserted_lines,
            "seed": int.from_bytes(digest[:4], "little"),
            "cpus": slot.cpus,
            "uid": _sandbox.FIRST_SLOT_UID + slot.number if own_uid else None,
            "workdir": _sandbox.WORKDIR,
            "tmp": "/tmp",  # noqa: S108
            "environment": {"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {},
        }
        with contextlib.ExitStack() as stack:
            if self._fixed["tier"] != "bubblewrap":
                folder = stack.enter_context(_folder(self._run_dir, job["uid"]))
                job |= {"workdir": str(folder / "work"), "tmp": str(folder / "tmp")}
                job["environment"] |= _sandbox.home_environment(job["tmp"])
                os.symlink(zygote.input_dir, folder / "work" / "input")
            group = self._groups[slot.index]
            job |= {"groups": len(group.folders), "highest_weight": group.highest_weight}
            payload = json.dumps(job).encode()
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                zygote.start_program(theirs)
            self._job_sockets.add(ours)
            stack.callback(self._job_sockets.discard, ours)
            streams: dict[int, _Output] = {}
            with contextlib.ExitStack() as write_ends:
                to_send = []
                for nonce in (program.nonce, ""):  # stdout, stderr
                    read_end, write_end = os.pipe()
                    stack.callback(os.close, read_end)
                    write_ends.callback(os.close, write_end)
                    streams[read_end] = _Output(self.output_bytes, nonce)
                    to_send.append(write_end)
                for fd in group.open():
                    write_ends.callback(os.close, fd)
                    to_send.append(fd)
                with contextlib.suppress(BrokenPipeError):  # then a report says why
                    # With the length alone, so that they are there before a large payload is read.
                    socket.send_fds(ours, [struct.pack("=I", len(payload))], to_send)
                    ours.sendall(payload)
            stdout, stderr = streams.values()
            answer = self._wait(ours, streams, group, limit_s or self.timeout_s + GRACE_S)
            if answer.lost:
                answer.report = self._judge_lost(answer, zygote, alone)
        answer.report["over_memory"] = group.over_memory()
        return _result(answer, stdout.text(), stderr.text(), queue_wait_s, slot.index, self)

    def _judge_lost(self, answer: _Answer, zygote: _Zygote, alone: bool) -> dict[str, Any]:
        """The report in place of a lost one, if that is the program's failure; else raises `ReportLost`."""
        lost_at = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            zygote.process.wait(timeout=1)  # it was killed, most likely: then the next program gets a new one
        code = zygote.process.returncode
        evidence = [
            answer.lost,
            f"the program had {'not ' if answer.started is None else ''}started",
            "the warm parent lives" if code is None else f"the warm parent ended with {code}",
            f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores",
        ]
        if not alone or answer.started is None:
            raise ReportLost("; ".join(evidence))
        slot = Slot(self.max_parallel, CONTROL_NUMBER)
        try:
            control = self._run(CONTROL, zygote, slot, 0.0, limit_s=GRACE_S)
        except (OSError, ReportLost) as error:
            raise ReportLost("; ".join([*evidence, f"a control program failed, too: {error}"])) from error
        evidence.append(f"a control program beside it: {control.outcome}")
        if control.outcome is not Outcome.OK:
            raise ReportLost("; ".join([*evidence, control.detail]))
        return {
            "reason": "lost",
            "evidence": "; ".join(evidence),
            "exit_code": None,
            "duration_s": lost_at - answer.started,
            "cpu_s": 0.0,
            "max_rss_mb": 0.0,
        }

    def _wait(
        self, job_socket: socket.socket, streams: dict[int, _Output], group: cgroups.ControlGroup, limit_s: float
    ) -> _Answer:
        """Drains both outputs until the report has come, or is lost."""
        answer = _Answer()
        deadline = time.monotonic() + limit_s
        poll = select.poll()
        for fd in (*streams, job_socket.fileno()):
            poll.register(fd, select.POLLIN)
        waiting = {*streams, job_socket.fileno()}
        received = bytearray()
        stopped = False
        while waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                answer.lost = f"no report within {limit_s:.0f} s"
                return answer
            events = poll.poll(min(left, TICK_S) * 1000)
            if not stopped and (answer.over_limit or group.over_memory()):
                stopped = True
                with contextlib.suppress(BrokenPipeError):
                    job_socket.send(b"k")
            for fd, _ in events:
                if fd in streams:
                    chunk = os.read(fd, 1 << 16)
                    answer.over_limit = not streams[fd].feed(chunk) or answer.over_limit
                else:
                    try:
                        chunk = job_socket.recv(1 << 20)
                    except ConnectionResetError:
                        chunk = b""
                    received += chunk
                    if answer.started is None and received[:4] == NO_BYTES:
                        answer.started = time.monotonic()
                        del received[:4]
                if not chunk:
                    poll.unregister(fd)
                    waiting.discard(fd)
        answer.read(bytes(received))
        return answer

    def _check_isolation(self, tier: str) -> None:
        """Runs a program that tries what none may do; raises `SandboxError` if anything succeeds."""
        folder = Path(tempfile.mkdtemp(dir=self._run_dir))
        public, secret = folder / "public", folder / "private" / "labels.csv"
        public.mkdir()
        secret.parent.mkdir()
        secret.write_text("secret")
        for path in (folder, public, secret.parent, secret):
            path.chmod(0o755)
        victim = subprocess.Popen(["sleep", "30"], env={"PATH": os.defpath, "SECRET": str(secret)})
        try:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
                probe = _sandbox.PROBE.format(secret=str(secret), port=port, victim=victim.pid)
                zygote = _Zygote(tier, public, self._run_dir, (), self._fixed)
                try:
                    result = self._run(probe, zygote, Slot(0, CHECK_NUMBER), 0.0)
                finally:
                    zygote.close()
            if victim.poll() is not None:
                raise SandboxError("it does not isolate programs here: one killed another process")
        finally:
            victim.kill()
            victim.wait()
        if result.stdout.split() != ["checked"]:
            found = " ".join(result.stdout.split()) or result.detail
            raise SandboxError(f"it does not isolate programs here: {found}")


@contextlib.contextmanager
def _folder(run_dir: Path, uid: int | None) -> Iterator[Path]:
    """The folder of one program where it cannot have a file system of its own."""
    folder = Path(tempfile.mkdtemp(dir=run_dir))
    try:
        folder.chmod(0o711)  # the program, with its own uid, walks through it, and cannot change what is in it
        for path in (folder / "work", folder / "tmp"):
            path.mkdir(mode=0o700)
            if uid is not None:
                os.chown(path, uid, uid)
        yield folder
    finally:
        # rm goes as deep as the program did; what it made unsearchable is made searchable first.
        for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            if folder.exists():
                subprocess.run([*command, str(folder)], stderr=subprocess.DEVNULL, check=False)


def longest_round_s(timeout_s: float) -> float:
    """
    Longest that a round of programs, one in each slot, may take, in seconds: until their reports are lost, until nothing
    else runs (the others' reports may be lost, too), as long again, then alone, and a control program.
    """
    return 4 * (timeout_s + GRACE_S) + GRACE_S


def _open_files() -> int:
    """How many files this process may have open, from now on as many as it can be allowed: descriptors in flight between
    processes are counted for all of a user's together."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return str(number)


def _make_run_dir() -> tuple[Path, IO[str]]:
    """Makes the folder of one executor, and removes those of executors that were killed. The lock in a folder is held
    for as long as its executor lives."""
    # In /tmp whatever TMPDIR says: the sandbox's uid must be able to walk to it.
    tmp = Path("/tmp")  # noqa: S108
    for lock_file in tmp.glob("trl_mle-*/lock"):
        with contextlib.suppress(OSError), open(lock_file) as lock:  # another user's, or still in use
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock_file.parent, ignore_errors=True)
    cgroups.remove_stale(tmp)
    hidden = Path(tempfile.mkdtemp(prefix=".trl_mle-", dir=tmp))
    hidden.chmod(0o711)
    lock = open(hidden / "lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    return hidden.rename(hidden.with_name(hidden.name.removeprefix("."))), lock


def _result(
    answer: _Answer,
    stdout: str,
    stderr: str,
    queue_wait_s: float,
    slot: int,
    executor: LocalExecutor,
) -> ExecutionResult:
    """The one place where the end of a program becomes an outcome."""
    report = answer.report
    if "error" in report:
        return ExecutionResult(Outcome.INFRASTRUCTURE, report["error"], queue_wait_s=queue_wait_s, slot=slot)
    code = report["exit_code"]
    last_lines = stderr.strip().splitlines()[-5:]
    last_line = (last_lines or [""])[-1][:500]
    refused = [line[:500] for line in last_lines if any(words in line for words in OUT_OF_MEMORY_WORDS)]
    if answer.over_limit:
        outcome, detail = Outcome.OUTPUT_LIMIT, f"wrote more than {executor.output_bytes >> 10} KB"
    elif report["over_memory"] and code != 0:
        outcome, detail = Outcome.OUT_OF_MEMORY, "the kernel ended processes in its control group for memory"
    elif report["reason"] == "lost":
        outcome, detail = Outcome.KILLED, report["evidence"]
    elif report["reason"] == "timeout":
        outcome, detail = Outcome.TIMEOUT, f"still running after {executor.timeout_s:g} s"
    elif report["reason"] == "memory":
        outcome, detail = Outcome.OUT_OF_MEMORY, f"its processes held more than {executor.memory_mb} MB"
    elif report["reason"] == "processes":
        outcome, detail = Outcome.KILLED, f"ran more than {executor.max_processes} processes"
    elif report["reason"] == "disk":
        outcome, detail = Outcome.OUTPUT_LIMIT, f"wrote more than {executor.disk_mb} MB of files"
    elif code == 0:
        outcome, detail = Outcome.OK, report["submission_error"] or ""
    elif code == -signal.SIGKILL and report["oom_kills"] > 0:
        outcome, detail = Outcome.OUT_OF_MEMORY, "SIGKILL, and the kernel's oom_kill counter rose"
    elif code in (-signal.SIGABRT, 1) and refused:
        outcome, detail = Outcome.OUT_OF_MEMORY, refused[-1]
    elif code < 0:
        outcome, detail = Outcome.KILLED, f"signal {_signal_name(-code)}"
    else:
        outcome, detail = Outcome.ERROR, last_line or f"exit code {code}"
    return ExecutionResult(
        outcome,
        detail,
        duration_s=report["duration_s"],
        cpu_s=report["cpu_s"],
        max_rss_mb=report["max_rss_mb"],
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        submission=answer.submission,
        queue_wait_s=queue_wait_s,
        slot=slot,
    )
