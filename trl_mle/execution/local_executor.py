"""Runs programs on this machine: one per slot at a time, isolated, timed, bounded, and fully cleaned up."""

import contextlib
import logging
import math
import os
import signal
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.execution import cgroups
from trl_mle.execution.answer import ReportLost
from trl_mle.execution.executor import (
    GRACE_S,
    START_TIMEOUT_S,
    ExecutionResult,
    Executor,
    Outcome,
    ProgramFuture,
    longest_round_s,
)
from trl_mle.execution.folders import hold, make_run_dir, raise_open_files, remove_run_dir
from trl_mle.execution.program import OPTIONAL, REQUIRED, Limits, Program
from trl_mle.execution.runner import MAX_FILES, Runner
from trl_mle.execution.sandbox import REMEDY, CheckUnfinished, SandboxError, Tier, candidate_tiers
from trl_mle.execution.sandbox.inputs import Input
from trl_mle.execution.sandbox.interpreter import Interpreter, find_interpreter
from trl_mle.execution.sandbox.probe import make_probe
from trl_mle.execution.sandbox.program_environment import IMPORTS, PACKAGES
from trl_mle.execution.slots import Closed, Slot, Slots
from trl_mle.waits import waiting_for


logger = logging.getLogger(__name__)

CONTROL = "print('control')"  # any working executor can run it
CONTROL_NUMBER, CHECK_NUMBER = 1998, 1999  # slots of their own, beside those of programs
# The packages that programs can import
_PROVEN: dict[tuple[Tier, Interpreter], tuple[str, ...]] = {}


class LocalExecutor(Executor):
    """
    Runs programs on this machine, each in a separate sandbox, at most `max_parallel` at a time.

    A warm parent inside the sandbox imports the usual packages (numpy, pandas, scikit-learn) once and forks one child
    per program. An executor that nobody refers to any more closes itself, at the latest when the process ends.

    Args:
        max_parallel (`int`, *optional*):
            Number of slots, which all executors of a user share. Defaults to the cores over `threads_per_program`.
        timeout_s (`float`, *optional*, defaults to `60.0`):
            Wall-clock limit of one program, in seconds.
        memory_mb (`int`, *optional*, defaults to `4096`):
            Memory limit of one program in MB: address space of each process, and resident memory of all.
        disk_mb (`int`, *optional*, defaults to `1024`), output_kb (`int`, *optional*, defaults to `1024`):
            Size in MB of what it may write, and KB of stdout and of stderr, each, that are kept.
        submission_mb (`int`, *optional*, defaults to `64`):
            Largest submission.csv that is read, in MB.
        max_processes (`int`, *optional*, defaults to `256`):
            Maximum number of processes and threads per program.
        threads_per_program (`int`, *optional*, defaults to `1`):
            Cores per slot. Slots are pinned to separate cores if there are enough.
        gpus (`Sequence[str]`, *optional*):
            GPUs for programs, one per slot, as in `CUDA_VISIBLE_DEVICES`; the address space is then not limited.
        packages (`Sequence[str]`, *optional*):
            Modules that the warm parent imports; missing and broken ones are skipped.
        sandbox (`str`, *optional*, defaults to `"auto"`):
            `"auto"`: the strongest tier that works, or an error. `"none"`: no isolation. Or the name of a tier.
        python (`str`, *optional*):
            The interpreter that runs programs, 3.11 or newer, with its environment. Defaults to the caller's.
        training_cores (`int`, *optional*, defaults to `0`):
            Cores that programs leave to training, see [`~trl_mle.launching.keep_to_training_cores`].

    Raises:
        `SandboxError`: Programs cannot be isolated on this machine; the message says what to install.
        `ValueError`: `training_cores` leaves no core for programs, or a slot has no GPU.
    """

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
        packages: Sequence[str] = PACKAGES,
        sandbox: str = "auto",
        python: str | None = None,
        training_cores: int = 0,
    ):
        tiers = candidate_tiers(sandbox)
        self._python = find_interpreter(python)
        self._slots = Slots(max_parallel, threads_per_program, gpus, training_cores=training_cores)
        self.max_parallel = len(self._slots.slots)
        self.timeout_s = timeout_s
        self.memory_mb = memory_mb
        self.threads_per_program = threads_per_program
        self._run_dir, lock = make_run_dir()
        self._closing = contextlib.ExitStack()
        for fd in (lock, hold(self._slots.folder)):
            self._closing.callback(os.close, fd)
        self._closing.callback(remove_run_dir, self._run_dir)
        # One for each slot, and the last one for checks. Files written by a program count as memory, too.
        self._groups = cgroups.make_groups(self._run_dir, self.max_parallel + 1, memory_mb + disk_mb, max_processes)
        self._closed = threading.Event()
        self._threads = ThreadPoolExecutor(self.max_parallel, thread_name_prefix="trl_mle-slot")
        self._closing.enter_context(contextlib.suppress(RuntimeError))  # one of the threads may have to close it all
        self._closing.callback(self._threads.shutdown)  # queued programs find it closed
        settings = {
            "memory_mb": memory_mb,
            "disk_mb": disk_mb,
            "output_kb": output_kb,
            "submission_mb": submission_mb,
            "max_processes": max_processes,
            "max_files": min(MAX_FILES, max(64, raise_open_files() // (self.max_parallel + 1))),
            "threads": threads_per_program,
            "gpus": bool(gpus),
        }
        try:
            self._choose_tier(tiers, settings, packages)
            self._check_imports()
        except BaseException:
            self.close()
            raise
        self._closing.callback(self._closed.set)  # before everything else
        weakref.finalize(self, self._closing.close)

    def _choose_tier(self, tiers: list[Tier], settings: Mapping[str, Any], packages: Sequence[str]) -> None:
        """Keeps to the first tier that works, by trying."""
        problems = []
        for tier in tiers:
            self.tier = tier
            self._runner = Runner(
                tier, self._python, self._run_dir, self._groups, settings, packages, self._slots.cores
            )
            self._closing.callback(self._runner.close)
            try:
                tier.check_available()
                if tier.isolates:
                    self._python.check_nothing_private()
                    self._check_isolation()
            except CheckUnfinished:  # this tier may work, so do not use a weaker one
                raise
            except (SandboxError, OSError) as error:
                problems.append(f"{tier}: {error}")
                self._runner.close()
                continue
            for problem in problems:
                logger.warning("programs are isolated by %s, because a stronger tier does not work: %s", tier, problem)
            return
        raise SandboxError(f"programs cannot be isolated on this machine: {'; '.join(problems)}", REMEDY)

    def _check_isolation(self) -> None:
        """Runs a program that tries forbidden actions; raises `SandboxError` if any of them succeeds."""
        with make_probe(self._run_dir, self._runner.inputs) as (program, input_):
            result = self._run_check(program, input_)
        if result.stdout.split() != ["checked"]:
            successes = " ".join(result.stdout.split()) or result.detail
            raise SandboxError(f"it does not isolate programs here: {successes}")

    def _check_imports(self) -> None:
        """Raises `SandboxError` if programs lack a required package: the policy would be penalized for it."""
        if (self.tier, self._python) in _PROVEN:
            return
        with make_probe(self._run_dir, self._runner.inputs) as (_, input_):
            result = self._run_check(IMPORTS, input_)
        if result.outcome is not Outcome.OK:
            missed = f", except {', '.join(self._python.left_out)}" if self._python.left_out else ""
            raise SandboxError(
                f"programs cannot import the usual packages inside the sandbox ({self.tier}): {result.detail}",
                f"Install them in {self._python.prefix}, readable for everyone; programs see sys.path{missed}",
            )
        names = {line.partition(" ")[0] for line in result.stdout.splitlines()}
        _PROVEN[self.tier, self._python] = tuple(name for name in REQUIRED + OPTIONAL if name in names)

    def _run_check(self, program: str, input_: Input) -> ExecutionResult:
        """Runs a program of ours, without a wait for others; raises `CheckUnfinished` if it was ended."""
        unfinished = f"a check of the sandbox ({self.tier}) did not end"
        try:
            with (
                self._slots.take_number(CHECK_NUMBER) as slot,
                self._runner.warm_parents.use(input_.bound) as warm_parent,
                waiting_for(f"a check of the sandbox ({self.tier}) to end"),
            ):
                result = self._runner.run(program, warm_parent, input_, slot, START_TIMEOUT_S)
        except ReportLost as error:
            raise CheckUnfinished(f"{unfinished}: {error}") from error
        if result.exit_code == -signal.SIGKILL:
            raise CheckUnfinished(f"{unfinished}: {result.detail}")
        return result

    @property
    def limits(self) -> Limits:
        """Limits of a program, with the packages that were found inside the sandbox."""
        return Limits(self.timeout_s, self.memory_mb, self.threads_per_program, _PROVEN[self.tier, self._python])

    @property
    def description(self) -> str:
        isolated = f"are isolated by {self.tier}" if self.tier.isolates else "are not isolated and run"
        bounded = ", in control groups" if any(group.folders for group in self._groups) else ""
        usable, all_cores = len(self._slots.cores), os.cpu_count()
        cores = f"{usable} of {all_cores}" if usable != all_cores else all_cores
        return f"programs {isolated}, {self.max_parallel} at a time on {cores} cores{bounded}"

    def close(self) -> None:
        self._closing.close()

    def check(self, competition: Competition) -> None:
        """Starts the process that programs share, which otherwise happens with the first program. Raises
        `SandboxError` if programs could read the competition's labels, or cannot have its data."""
        self._check_labels(competition)
        with (
            self._runner.inputs.use(competition.public_dir.absolute()) as input_,
            self._runner.warm_parents.use(input_.bound),  # starts it
        ):
            pass

    def _check_labels(self, competition: Competition) -> None:
        if self.tier.isolates:
            self._python.check_labels_hidden(competition.id, competition.public_dir)

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """Queues a program, whose `input/` is the competition's public folder. Raises `SandboxError` if programs could
        read the competition's labels."""
        self._check_labels(competition)
        future = ProgramFuture()  # the pool's own would report programs as running while they wait for a slot
        future.follow(self._threads.submit(self._execute, program, competition, time.monotonic(), future))
        return future

    def longest_s(self, programs: int) -> float:
        """Maximum time in seconds if every training process of this machine submits this many programs at once, which
        all run into their timeout, and whose reports are lost."""
        processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of a launcher
        rounds = math.ceil(processes * programs / self.max_parallel)
        return START_TIMEOUT_S + rounds * longest_round_s(self.timeout_s)

    def _execute(
        self, program: Program, competition: Competition, submitted: float, future: ProgramFuture
    ) -> ExecutionResult:
        try:
            with self._slots.take(self._closed) as slot:
                if not future.set_running_or_notify_cancel():
                    raise Closed
                waited = time.monotonic() - submitted
                for _ in range(2):
                    try:
                        return self._run_in(slot, program, competition, submitted, future)
                    except ReportLost as error:
                        if error.result is None or self._closed.is_set() or future.stopping.is_set():
                            raise
                        lost = error.result
                return replace(self._judge_lost(lost, competition), queue_wait_s=waited)
        except (OSError, SandboxError, Closed) as error:
            waited = time.monotonic() - submitted
            return ExecutionResult(Outcome.INFRASTRUCTURE, f"{type(error).__name__}: {error}", queue_wait_s=waited)

    def _run_in(
        self, slot: Slot, program: Program, competition: Competition, submitted: float, future: ProgramFuture
    ) -> ExecutionResult:
        public_dir = competition.public_dir.absolute()
        with self._runner.inputs.use(public_dir) as input_, self._runner.warm_parents.use(input_.bound) as warm_parent:
            future.started = time.monotonic()  # the start of a warm parent is waiting, too
            waited = future.started - submitted
            result = self._runner.run(program, warm_parent, input_, slot, self.timeout_s, future.stopping)
        if result.outcome is Outcome.ERROR and self.tier.isolates:
            self._runner.inputs.check_whole(public_dir)  # others may have removed its data
        return replace(result, queue_wait_s=waited)

    def _judge_lost(self, lost: ExecutionResult, competition: Competition) -> ExecutionResult:
        """The result of a program whose report was lost twice: its own failure if a control program beside it
        succeeds. Otherwise raises `ReportLost`."""
        with (
            self._slots.take_number(CONTROL_NUMBER) as slot,
            self._runner.inputs.use(competition.public_dir.absolute()) as input_,
            self._runner.warm_parents.use(input_.bound) as warm_parent,
        ):
            try:
                control = self._runner.run(CONTROL, warm_parent, input_, slot, GRACE_S)
            except (OSError, ReportLost) as error:
                raise ReportLost(f"{lost.detail}; a control program failed, too: {error}") from error
        if control.outcome is not Outcome.OK:
            raise ReportLost(f"{lost.detail}; a control program failed, too: {control.detail}")
        return replace(lost, detail=f"{lost.detail}; a control program beside it: ok")
