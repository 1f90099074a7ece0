"""Runs programs on this machine: one per slot at a time, isolated, timed, bounded, and fully cleaned up."""

import contextlib
import hashlib
import logging
import math
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trl_mle.competitions import Competition
from trl_mle.execution import cgroups
from trl_mle.execution import sandbox as _sandbox
from trl_mle.execution.answer import Answer, ReportLost, execution_result, lost_report, receive
from trl_mle.execution.executor import (
    GRACE_S,
    START_TIMEOUT_S,
    ExecutionResult,
    Executor,
    Outcome,
    ProgramFuture,
    longest_round_s,
)
from trl_mle.execution.folders import held, make_run_dir, program_folder, raise_open_files, remove_run_dir
from trl_mle.execution.output import Output
from trl_mle.execution.program import OPTIONAL, REQUIRED, InstrumentedProgram, Limits, Program
from trl_mle.execution.sandbox import CheckUnfinished, Input, SandboxError, Tier
from trl_mle.execution.sandbox.tier import INPUT, SCRATCH, WORKDIR
from trl_mle.execution.slots import Closed, Slot, Slots
from trl_mle.execution.warm_parent import WarmParent, send_job
from trl_mle.waits import waiting_for


logger = logging.getLogger(__name__)

CONTROL = "print('control')"  # any working executor can run it
CONTROL_NUMBER, CHECK_NUMBER = 1998, 1999  # slots of their own, beside those of programs
# Packages that a program has found
_PROVEN: dict[tuple[Tier, _sandbox.Interpreter], tuple[str, ...]] = {}
MAX_WARM_PARENTS = 16  # at a time, about 130 MB each, of large competitions; more only if all are in use
MAX_FILES = 1024  # open files of a program
LEAST_FREE = 1 << 20  # bytes, below which a file system counts as full
MAX_LOCKS = 10_000  # locks of a program on parts of files, which no other limit counts


class LocalExecutor(Executor):
    """
    Runs programs on this machine, each in a separate sandbox, at most `max_parallel` at a time.

    A warm parent inside the sandbox imports the usual packages (numpy, pandas, scikit-learn) once and forks one child per
    program, so programs pay neither for these imports nor for the interpreter's start. All competitions share it, except
    those with large data, which have one each (see `sandbox/inputs.py`).

    Args:
        max_parallel (`int`, *optional*):
            Number of slots, which all executors of a user on a machine share. Defaults to the number of usable cores divided
            by `threads_per_program`.
        timeout_s (`float`, *optional*, defaults to `60.0`):
            Wall-clock limit of one program, in seconds.
        memory_mb (`int`, *optional*, defaults to `4096`):
            Memory limit of one program in MB: address space of each of its processes (beyond the warm parent's
            imports), and resident memory of all of them.
        disk_mb (`int`, *optional*, defaults to `1024`):
            Size in MB of the tmpfs behind its working folder, /tmp and /dev/shm.
        output_kb (`int`, *optional*, defaults to `1024`):
            KB of stdout and of stderr, each, that are kept: the first and the last half. A program may print more.
        submission_mb (`int`, *optional*, defaults to `64`):
            Largest submission.csv that is read, in MB.
        max_processes (`int`, *optional*, defaults to `256`):
            Maximum number of processes and threads per program.
        threads_per_program (`int`, *optional*, defaults to `1`):
            Cores per slot. Slots are pinned to separate cores if there are enough.
        gpus (`Sequence[str]`, *optional*):
            GPUs for programs, one per slot, as in `CUDA_VISIBLE_DEVICES`. The address space of a program is then not
            limited, because CUDA maps more than the physical memory. Defaults to none.
        start (`str`, *optional*, defaults to `"warm"`):
            `"warm"`: as above. `"cold"`: each program gets a new interpreter, and imports its packages itself.
        packages (`Sequence[str]`, *optional*):
            Modules that the warm parent imports; missing and broken ones are skipped. Defaults to the usual parts of numpy,
            pandas, scipy and scikit-learn, and matplotlib's fonts.
        sandbox (`str`, *optional*, defaults to `"auto"`):
            `"auto"`: the strongest tier that works on this machine, or an error. `"none"`: no isolation. Otherwise the
            name of a tier; `sandbox/` documents the guarantees of each.
        python (`str`, *optional*):
            The interpreter that runs programs, 3.11 or newer, with its environment. Defaults to the caller's.
        training_cores (`int`, *optional*, defaults to `0`):
            Cores that programs leave to training: the first ones of those that this process may use. The caller keeps
            itself to them with [`~trl_mle.launching.keep_to_training_cores`], once the executor exists.

    Raises:
        `SandboxError`: Programs cannot be isolated on this machine; the message says what to install.
        `ValueError`: `training_cores` leaves no core for programs, a slot has no GPU, or `start` is unknown.

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

    reports_start = True
    is_local = True

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
        python: str | None = None,
        training_cores: int = 0,
    ):
        if start not in ("warm", "cold"):
            raise ValueError(f"start must be 'warm' or 'cold', got {start!r}")
        self._python = _sandbox.find_interpreter(python)
        self._slots = Slots(max_parallel, threads_per_program, gpus, training_cores=training_cores)
        self.max_parallel = len(self._slots.slots)
        self.timeout_s = timeout_s
        self.memory_mb = memory_mb
        self.threads_per_program = threads_per_program
        self.disk_mb = disk_mb
        self.output_bytes = output_kb << 10
        self.max_processes = max_processes
        self._packages = packages if start == "warm" else ()
        self._fixed = {
            "start": start,
            "memory_mb": memory_mb,
            "disk_mb": disk_mb,
            "output_kb": output_kb,
            "submission_mb": submission_mb,
            "max_processes": max_processes,
            "max_files": min(MAX_FILES, max(64, raise_open_files() // (self.max_parallel + 1))),
            "max_locks": MAX_LOCKS,
            "threads": threads_per_program,
            "gpus": bool(gpus),
            "inputs": INPUT,
            "scratch": SCRATCH,
            "python_folders": self._python.folders,
        }
        self._run_dir, self._run_dir_lock = make_run_dir()
        self._held = contextlib.ExitStack()
        for folder in self._run_dir, self._slots.folder:
            self._held.enter_context(held(folder))
        # One for each slot, and the last one for control programs. Files written by a program count as memory, too.
        self._groups = cgroups.make_groups(self._run_dir, self.max_parallel + 1, memory_mb + disk_mb, max_processes)
        self._fixed["memory_is_bounded"] = any(group.folders for group in self._groups)
        self._warm_parents: dict[Path, WarmParent] = {}
        self._checked: set[Path] = set()
        self._job_sockets: set[socket.socket] = set()
        self._warm_parents_lock = threading.Lock()
        self._closed = threading.Event()
        self._threads = ThreadPoolExecutor(self.max_parallel, thread_name_prefix="trl_mle-slot")
        try:
            self._choose_tier(sandbox)
        except BaseException:
            self.close()
            raise

    def _choose_tier(self, sandbox: str) -> None:
        """Keeps to the first tier that works, by trying."""
        problems = []
        for tier in _sandbox.candidate_tiers(sandbox):
            self.tier = tier
            bounded, gpus = bool(self._fixed["memory_is_bounded"]), bool(self._fixed["gpus"])
            seccomp = _sandbox.seccomp_filter(tier, bounded, gpus).hex() if tier.isolates else ""
            self._fixed |= asdict(tier) | {"seccomp": seccomp}
            self._inputs = _sandbox.Inputs(self._run_dir, tier, self._python)
            try:
                tier.check_available()
                if tier.isolates:
                    self._python.check_nothing_private()
                    self._check_isolation()
            except CheckUnfinished:  # this tier may work, so do not use a weaker one
                raise
            except (SandboxError, OSError) as error:
                problems.append(f"{tier}: {error}")
                continue
            for problem in problems:
                logger.warning("programs are isolated by %s, because a stronger tier does not work: %s", tier, problem)
            return
        raise SandboxError(f"programs cannot be isolated on this machine: {'; '.join(problems)}", _sandbox.REMEDY)

    def _start(self, bound: Path, packages: Sequence[str]) -> WarmParent:
        return WarmParent(self.tier, bound, packages, self._run_dir, self._fixed, self._python, self._slots.cores)

    @property
    def limits(self) -> Limits:
        """Limits of a program. Its packages are looked up inside the sandbox, once per process."""
        if (self.tier, self._python) not in _PROVEN:
            with (
                _sandbox.make_probe(self._run_dir, self._inputs) as (_, input_),
                self._slots.take_number(CHECK_NUMBER) as slot,  # no wait for other programs
                self._warm_parent(input_, slot) as warm_parent,
            ):
                self._check_imports(warm_parent, input_, slot)
        return Limits(self.timeout_s, self.memory_mb, self.threads_per_program, _PROVEN[self.tier, self._python])

    @property
    def slots(self) -> int:
        """Number of programs that run at a time, on all machines of a run if they are as large as this one."""
        processes = os.environ.get("WORLD_SIZE", "1")  # of a launcher
        return self.max_parallel * max(1, int(processes) // int(os.environ.get("LOCAL_WORLD_SIZE", processes)))

    @property
    def description(self) -> str:
        """How programs run here, in one line."""
        isolated = f"are isolated by {self.tier}" if self.tier.isolates else "are not isolated and run"
        bounded = ", in control groups" if self._fixed["memory_is_bounded"] else ""
        usable, all_cores = len(self._slots.cores), os.cpu_count()
        cores = f"{usable} of {all_cores}" if usable != all_cores else all_cores
        return f"programs {isolated}, {self.max_parallel} at a time on {cores} cores{bounded}"

    def close(self) -> None:
        """Ends every program, running or queued, and every process of the executor."""
        self._closed.set()
        with self._warm_parents_lock:
            for warm_parent in self._warm_parents.values():
                warm_parent.close()
            self._warm_parents.clear()
        for job_socket in tuple(self._job_sockets):  # without a pid namespace, this ends a program's init
            with contextlib.suppress(OSError):
                job_socket.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(wait=True)  # queued programs find it closed
        remove_run_dir(self._run_dir)
        self._run_dir_lock.close()
        self._held.close()

    def check(self, competition: Competition) -> None:
        """Starts the process that programs share and makes their input, which otherwise happens with the first program.
        Raises `SandboxError` if programs could read its labels, cannot have its data, or cannot import packages that every
        prompt lists."""
        self._check_labels(competition)
        with (
            self._slots.take_number(CHECK_NUMBER) as slot,  # no wait for other programs
            self._inputs.use(competition.public_dir.absolute()) as input_,
            self._warm_parent(input_, slot),  # starts it
        ):
            pass

    def _check_labels(self, competition: Competition) -> None:
        if self.tier.isolates and competition.public_dir not in self._checked:
            self._python.check_labels_hidden(competition.id, competition.public_dir)
            self._checked.add(competition.public_dir)

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """
        Queues a program.

        Args:
            program (`str` or [`InstrumentedProgram`]):
                Python source. For an instrumented program, the source with the milestone prints is run, while the file
                on disk and the lines of tracebacks are the original's.
            competition ([`Competition`]):
                The competition; its public folder is the program's `input/`.

        Returns:
            [`ProgramFuture`]: A future that never raises because of the program's behaviour.

        Raises:
            `SandboxError`: Programs could read the competition's labels.
        """
        self._check_labels(competition)
        future = ProgramFuture()  # the pool's own would report programs as running while they wait for a slot
        future.follow(self._threads.submit(self._execute, program, competition, time.monotonic(), future))
        return future

    def longest_s(self, programs: int) -> float:
        """Maximum time in seconds until all results are available, if every training process of this machine submits
        this many programs at once: all of them run into their timeout, in the shared slots, and in each round
        reports are lost."""
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of a launcher
        rounds = math.ceil(processes * programs / self.max_parallel)
        return START_TIMEOUT_S + rounds * longest_round_s(self.timeout_s)

    @contextlib.contextmanager
    def _warm_parent(self, input_: Input, slot: Slot) -> Iterator[WarmParent]:
        """The warm parent of programs with this input, which is not closed meanwhile to make room for another."""
        with self._warm_parents_lock:
            warm_parent = self._find_warm_parent(input_, slot)
            with warm_parent.lock:
                warm_parent.users += 1
        try:
            yield warm_parent
        finally:
            with warm_parent.lock:  # not the other one, which is held while a warm parent starts
                warm_parent.users -= 1

    def _find_warm_parent(self, input_: Input, slot: Slot) -> WarmParent:
        if self._closed.is_set():
            raise SandboxError("the executor is closed")
        warm_parent = self._warm_parents.pop(input_.bound, None)
        if warm_parent is None or warm_parent.process.poll() is not None:  # killed from outside
            if warm_parent is not None:
                warm_parent.close()
            self._make_room()
            warm_parent = self._start(input_.bound, self._packages)
            try:
                self._check_imports(warm_parent, input_, slot)
            except BaseException:
                warm_parent.close()
                raise
        self._warm_parents[input_.bound] = warm_parent  # the last: the one that was used last
        return warm_parent

    def _make_room(self) -> None:
        """Closes idle warm parents, the least recently used first, until there is room for another."""
        for bound, warm_parent in list(self._warm_parents.items()):
            if len(self._warm_parents) < MAX_WARM_PARENTS:
                return
            if not warm_parent.users:
                del self._warm_parents[bound]
                warm_parent.close()

    def _check_imports(self, warm_parent: WarmParent, input_: Input, slot: Slot) -> None:
        """Raises `SandboxError` if programs lack a required package: the policy would be penalized for it."""
        if (self.tier, self._python) in _PROVEN:
            return
        result = self._run_check(_sandbox.IMPORTS, warm_parent, input_, slot)
        if result.outcome is not Outcome.OK:
            missed = ", ".join(self._python.left_out)
            raise SandboxError(
                f"programs cannot import the usual packages inside the sandbox ({self.tier}): {result.detail}",
                f"Install them in {self._python.prefix}, readable for everyone: programs see the folders on sys.path, but not "
                "what links there point to" + (f", and not {missed}, where more than packages lies" if missed else ""),
            )
        found = {line.partition(" ")[0] for line in result.stdout.splitlines()}
        _PROVEN[self.tier, self._python] = tuple(name for name in REQUIRED + OPTIONAL if name in found)

    def _execute(
        self, program: Program, competition: Competition, submitted: float, future: ProgramFuture
    ) -> ExecutionResult:
        index = -1
        public_dir = competition.public_dir.absolute()
        run = partial(
            self._run, columns=(competition.id_column, *competition.target_columns), stopping=future.stopping
        )
        try:
            with self._slots.take(self._closed) as slot:
                if not future.set_running_or_notify_cancel():
                    raise Closed
                index = slot.index
                with self._inputs.use(public_dir) as input_, self._warm_parent(input_, slot) as warm_parent:
                    future.started = time.monotonic()  # the start of a warm parent is waiting, too
                    queue_wait_s = future.started - submitted
                    try:
                        result = run(program, warm_parent, input_, slot, queue_wait_s)
                        return self._checked_result(result, input_)
                    except ReportLost as error:
                        if warm_parent.process.poll() is not None or self._closed.is_set() or future.stopping.is_set():
                            raise
                        lost = str(error)
            try:
                with (
                    self._slots.take_all(self._closed, self.timeout_s + GRACE_S) as slot,
                    self._inputs.use(public_dir) as input_,
                    self._warm_parent(input_, slot) as warm_parent,
                ):
                    result = run(program, warm_parent, input_, slot, queue_wait_s, alone=True)
                    return self._checked_result(result, input_)
            except (OSError, SandboxError, Closed) as error:
                raise ReportLost(f"{lost}; tried again alone: {error or type(error).__name__}") from error
        except (OSError, SandboxError, Closed) as error:
            waited = time.monotonic() - submitted
            problem = f"{type(error).__name__}: {error}"
            return ExecutionResult(Outcome.INFRASTRUCTURE, problem, queue_wait_s=waited, slot=index)

    def _checked_result(self, result: ExecutionResult, input_: Input) -> ExecutionResult:
        """Returns the result; raises `SandboxError` if the program failed and its data have been removed, by others."""
        if result.outcome is Outcome.ERROR and self.tier.isolates and not input_.is_whole():
            raise SandboxError(f"the files of {input_.folder} are not those that programs began with")
        return result

    def _run(
        self,
        program: Program,
        warm_parent: WarmParent,
        input_: Input,
        slot: Slot,
        queue_wait_s: float,
        timeout_s: float | None = None,
        limit_s: float | None = None,
        alone: bool = False,
        stopping: threading.Event | None = None,
        columns: Sequence[str] = (),
    ) -> ExecutionResult:
        """
        Runs a program in a slot; its report counts as lost after `limit_s`, by default its timeout plus `GRACE_S`.

        `alone` says that none of our other programs runs: a lost report is then the program's own failure if it had started and
        a control program beside it succeeds. Otherwise raises `ReportLost`. A submission in the wrong place is recognized by
        `columns`.
        """
        if isinstance(program, str):
            program = InstrumentedProgram(source=program, original=program, milestones=(), nonce="")
        digest = hashlib.sha256(program.original.encode("utf-8", errors="surrogatepass")).digest()
        timeout_s = timeout_s or self.timeout_s
        uid, guard_uid = self.tier.uids(slot.number)
        job: dict[str, Any] = {
            "timeout_s": timeout_s,
            "source": program.source,
            "original": program.original,
            "inserted_lines": program.inserted_lines,
            "columns": columns,
            "seed": int.from_bytes(digest[:4], "little"),
            "cpus": slot.cpus,
            "uid": uid,
            "guard_uid": guard_uid,
            "workdir": WORKDIR,
            "tmp": "/tmp",  # noqa: S108
            "environment": {"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {},
            **input_.job,
        }
        with contextlib.ExitStack() as stack:
            if not self.tier.namespaces:
                folder = stack.enter_context(program_folder(self._run_dir, uid))
                job |= {"workdir": str(folder / "work"), "tmp": str(folder / "tmp")}
                job["environment"] |= _sandbox.home_environment(job["tmp"])
                os.symlink(input_.job["input"], folder / "work" / "input")
            group = self._groups[slot.index]
            job |= {"groups": len(group.folders), "highest_weight": group.highest_weight}
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                warm_parent.start_program(theirs)
            self._job_sockets.add(ours)
            stack.callback(self._job_sockets.discard, ours)
            streams: dict[int, Output] = {}
            with contextlib.ExitStack() as write_ends:
                to_send = []
                for nonce in (program.nonce, ""):  # stdout, stderr
                    read_end, write_end = os.pipe()
                    stack.callback(os.close, read_end)
                    write_ends.callback(os.close, write_end)
                    streams[read_end] = Output(self.output_bytes, nonce)
                    to_send.append(write_end)
                to_send += group.open(write_ends)
                send_job(ours, job, to_send)
            stdout, stderr = streams.values()
            answer = receive(ours, streams, group, limit_s or timeout_s + GRACE_S, stopping or threading.Event())
            if answer.lost:
                answer.report = self._judge_lost(answer, warm_parent, input_, alone)
            was_full = not self.tier.limits_disk and shutil.disk_usage(self._run_dir).free < LEAST_FREE
        answer.report["over_memory"] = group.over_memory()
        limits = self._fixed | {"timeout_s": timeout_s}
        result = execution_result(answer, stdout.text(), stderr.text(), queue_wait_s, slot.index, limits)
        # A program that fills it within its limit, or writes more, leaves as much when its own files are removed
        if result.outcome is Outcome.ERROR and was_full and shutil.disk_usage(self._run_dir).free < self.disk_mb << 20:
            raise SandboxError(f"{self._run_dir.parent} is full: a program may write {self.disk_mb} MB there")
        return result

    def _judge_lost(self, answer: Answer, warm_parent: WarmParent, input_: Input, alone: bool) -> dict[str, Any]:
        """The replacement for a lost report, if that is the program's failure; otherwise raises `ReportLost`."""
        lost_at = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            warm_parent.process.wait(timeout=1)  # it was probably killed: the next program gets a new one
        code = warm_parent.process.returncode
        evidence = [
            answer.lost,
            f"the program had {'not ' if answer.started is None else ''}started",
            "the warm parent lives" if code is None else f"the warm parent ended with {code}",
            f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores",
        ]
        if not alone or answer.started is None:
            raise ReportLost("; ".join(evidence))
        try:
            with self._slots.take_number(CONTROL_NUMBER) as slot:
                control = self._run(CONTROL, warm_parent, input_, slot, 0.0, limit_s=GRACE_S)
        except (OSError, ReportLost) as error:
            raise ReportLost("; ".join([*evidence, f"a control program failed, too: {error}"])) from error
        evidence.append(f"a control program beside it: {control.outcome}")
        if control.outcome is not Outcome.OK:
            raise ReportLost("; ".join([*evidence, control.detail]))
        return lost_report("; ".join(evidence), lost_at - answer.started)

    def _check_isolation(self) -> None:
        """Runs a program that tries forbidden actions; raises `SandboxError` if any of them succeeds."""
        with (
            _sandbox.make_probe(self._run_dir, self._inputs) as (program, input_),
            contextlib.closing(self._start(input_.bound, ())) as warm_parent,
            self._slots.take_number(CHECK_NUMBER) as slot,
        ):
            result = self._run_check(program, warm_parent, input_, slot)
            if result.stdout.split() != ["checked"]:
                found = " ".join(result.stdout.split()) or result.detail
                raise SandboxError(f"it does not isolate programs here: {found}")

    def _run_check(self, program: str, warm_parent: WarmParent, input_: Input, slot: Slot) -> ExecutionResult:
        """Runs a program of ours; raises `CheckUnfinished` if it was ended, so that its result shows nothing."""
        try:
            with waiting_for(f"a check of the sandbox ({self.tier}) to end"):
                result = self._run(program, warm_parent, input_, slot, 0.0, timeout_s=START_TIMEOUT_S)
        except ReportLost as error:
            raise CheckUnfinished(f"a check of the sandbox ({self.tier}) did not end: {error}") from error
        if result.exit_code == -signal.SIGKILL:
            raise CheckUnfinished(f"a check of the sandbox ({self.tier}) did not end: {result.detail}")
        return result
