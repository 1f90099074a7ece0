"""Runs programs in the sandbox, one after the other or side by side."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trl_mle.execution.answer import ReportLost, execution_result, receive
from trl_mle.execution.cgroups import ControlGroup
from trl_mle.execution.executor import GRACE_S, ExecutionResult, Outcome
from trl_mle.execution.folders import program_folder
from trl_mle.execution.output import Output
from trl_mle.execution.program import InstrumentedProgram, Program
from trl_mle.execution.sandbox import SandboxError, Tier
from trl_mle.execution.sandbox.inputs import Input, Inputs
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.seccomp import seccomp_filter
from trl_mle.execution.sandbox.tier import INPUT, SCRATCH, WORKDIR
from trl_mle.execution.slots import Slot
from trl_mle.execution.warm_parent import WarmParent, WarmParents, send_job


MAX_FILES = 1024  # open files of a program
LEAST_FREE = 1 << 20  # bytes, below which a file system counts as full
MAX_LOCKS = 10_000  # locks of a program on parts of files, which no other limit counts


class Runner:
    """A sandbox on this machine: a tier, with the settings that all programs share, their inputs and warm parents."""

    def __init__(
        self,
        tier: Tier,
        python: Interpreter,
        run_dir: Path,
        groups: list[ControlGroup],
        settings: Mapping[str, Any],
        packages: Sequence[str],
        cores: Sequence[int],
    ):
        self.tier = tier
        self._run_dir = run_dir
        self._groups = groups
        bounded = any(group.folders for group in groups)
        seccomp = seccomp_filter(tier, bounded, settings["gpus"]).hex() if tier.isolates else ""
        self._fixed = {
            **settings,
            **asdict(tier),
            "max_locks": MAX_LOCKS,
            "inputs": INPUT,
            "scratch": SCRATCH,
            "python_folders": python.folders,
            "memory_is_bounded": bounded,
            "seccomp": seccomp,
        }
        self.inputs = Inputs(run_dir, tier, python)
        self.warm_parents = WarmParents(
            lambda bound: WarmParent(tier, bound, packages, run_dir, self._fixed, python, cores)
        )
        self._job_sockets: set[socket.socket] = set()

    def close(self) -> None:
        self.warm_parents.close()
        for job_socket in tuple(self._job_sockets):  # without a pid namespace, this ends a program's init
            with contextlib.suppress(OSError):
                job_socket.shutdown(socket.SHUT_RDWR)

    def run(
        self,
        program: Program,
        warm_parent: WarmParent,
        input_: Input,
        slot: Slot,
        timeout_s: float,
        stopping: threading.Event | None = None,
    ) -> ExecutionResult:
        """Runs a program in a slot; raises `ReportLost` if there is no report `GRACE_S` after its timeout."""
        group = self._groups[slot.index]
        nonces = "" if isinstance(program, str) else program.nonce, ""  # in stdout, in stderr
        with contextlib.ExitStack() as stack:
            job = self._job(program, slot, input_, group, timeout_s, stack)
            job_socket, theirs = socket.socketpair()
            stack.enter_context(job_socket)
            with theirs:
                warm_parent.start_program(theirs)
            self._job_sockets.add(job_socket)
            stack.callback(self._job_sockets.discard, job_socket)
            streams: dict[int, Output] = {}
            with contextlib.ExitStack() as write_ends:
                to_send = []
                for nonce in nonces:
                    read_end, write_end = os.pipe()
                    stack.callback(os.close, read_end)
                    write_ends.callback(os.close, write_end)
                    streams[read_end] = Output(self._fixed["output_kb"] << 10, nonce)
                    to_send.append(write_end)
                to_send += [*group.open(write_ends), *slot.locks]
                send_job(job_socket, job, to_send)
            answer = receive(job_socket, streams, group, timeout_s + GRACE_S, stopping or threading.Event())
            was_full = not self.tier.namespaces and shutil.disk_usage(self._run_dir).free < LEAST_FREE
        if not answer.lost:
            answer.report["over_memory"] = group.over_memory()
        stdout, stderr = (stream.text() for stream in streams.values())
        result = execution_result(answer, stdout, stderr, self._fixed | {"timeout_s": timeout_s})
        if answer.lost:
            raise _report_lost(result, answer.started is not None, warm_parent)
        # A program that fills it within its limit, or writes more, leaves as much when its own files are removed
        disk_mb = self._fixed["disk_mb"]
        if result.outcome is Outcome.ERROR and was_full and shutil.disk_usage(self._run_dir).free < disk_mb << 20:
            raise SandboxError(f"{self._run_dir.parent} is full: a program may write {disk_mb} MB there")
        return result

    def _job(
        self,
        program: Program,
        slot: Slot,
        input_: Input,
        group: ControlGroup,
        timeout_s: float,
        stack: contextlib.ExitStack,
    ) -> dict[str, Any]:
        """What a program's init needs to know, besides `_fixed`; makes its folder, unless it is on a tmpfs."""
        if isinstance(program, str):
            program = InstrumentedProgram(source=program, original=program, milestones=(), nonce="")
        digest = hashlib.sha256(program.original.encode("utf-8", errors="surrogatepass")).digest()
        uid, guard_uid = self.tier.uids(slot.number)
        workdir, tmp = WORKDIR, "/tmp"  # noqa: S108
        environment = {"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {}
        if not self.tier.namespaces:
            folder = stack.enter_context(program_folder(self._run_dir, uid))
            workdir, tmp = str(folder / "work"), str(folder / "tmp")
            environment |= {"HOME": tmp, "TMPDIR": tmp}
            os.symlink(input_.job["input"], folder / "work" / "input")
        return {
            "timeout_s": timeout_s,
            "source": program.source,
            "original": program.original,
            "inserted_lines": program.inserted_lines,
            "seed": int.from_bytes(digest[:4], "little"),
            "cpus": slot.cpus,
            "uid": uid,
            "guard_uid": guard_uid,
            "workdir": workdir,
            "tmp": tmp,
            "environment": environment,
            "groups": len(group.folders),
            "highest_weight": group.highest_weight,
            **input_.job,
        }


def _report_lost(result: ExecutionResult, started: bool, warm_parent: WarmParent) -> ReportLost:
    with contextlib.suppress(subprocess.TimeoutExpired):
        warm_parent.process.wait(timeout=1)  # it was probably killed: the next program gets a new one
    code = warm_parent.process.returncode
    ended = "the warm parent lives" if code is None else f"the warm parent ended with {code}"
    reason = f"{result.detail}; the program had {'' if started else 'not '}started; {ended}"
    return ReportLost(reason, replace(result, detail=reason) if started and code is None else None)
