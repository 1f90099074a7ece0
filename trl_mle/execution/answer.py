"""Reads a program's output and report from its sandbox, and determines the outcome."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_mle.execution.cgroups import ControlGroup
from trl_mle.execution.executor import ExecutionResult, Outcome
from trl_mle.execution.output import Output
from trl_mle.execution.sandbox import SandboxError
from trl_mle.showing import terminal_line


TICK_S = 0.5  # how often a program's control group is checked
# Pause between two reads of the output: a minimum, and a multiple of the read's CPU time, for endless printing
PAUSE_S, PAUSE_READS = 0.005, 9
NO_BYTES = struct.pack("=I", 0)  # the message that a program has started
# Messages of programs that have used up their address space
OUT_OF_MEMORY_WORDS = ("MemoryError", "Unable to allocate", "std::bad_alloc", "Cannot allocate memory")
WARNING = re.compile(r"\S.*:\d+: \w*Warning\b")
STDERR_CHARS = 1 << 16  # the end of stderr, which is searched for the reason of a failure


@dataclass
class Answer:
    """The data received from the sandbox of one program."""

    report: dict[str, Any] = field(default_factory=dict)
    submission: bytes | None = None
    started: float | None = None  # when the program did, by `time.monotonic()`
    lost: str = ""  # reason for a missing report

    def read(self, received: bytes) -> None:
        length = 4 + struct.unpack("=I", received[:4])[0] if len(received) >= 4 else 4
        if not 4 < length <= len(received):
            self.lost = "the sandbox died"
            return
        self.report = json.loads(received[4:length])
        if "error" in self.report:
            if self.started is not None:  # the program may have caused it
                self.lost = self.report["error"]
        elif (size := self.report["submission_bytes"]) is not None:
            self.submission = received[length:]
            if len(self.submission) != size:
                self.lost = "the sandbox died"


class ReportLost(SandboxError):
    """A program's report is missing. `result` is what this counts as if the program itself can be to blame."""

    def __init__(self, reason: str, result: ExecutionResult | None = None):
        super().__init__(reason)
        self.result = result


def receive(
    job_socket: socket.socket,
    streams: dict[int, Output],
    group: ControlGroup,
    limit_s: float,
    stopping: threading.Event,
) -> Answer:
    """Reads both outputs until the report arrives or is lost; ends a program that must stop."""
    answer = Answer()
    deadline = time.monotonic() + limit_s
    poll, report_alone = select.poll(), select.poll()
    report_alone.register(job_socket, select.POLLIN)
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
        if not stopped and (group.over_memory() or stopping.is_set()):
            stopped = True
            with contextlib.suppress(BrokenPipeError):
                job_socket.send(b"k")
        began = time.thread_time()
        for fd, _ in events:
            if fd in streams:
                chunk = os.read(fd, 1 << 16)
                streams[fd].feed(chunk)
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
        if job_socket.fileno() in waiting and any(fd in streams for fd, _ in events):
            report_alone.poll(max(PAUSE_S, PAUSE_READS * (time.thread_time() - began)) * 1000)
    answer.read(bytes(received))
    return answer


def _reason(stderr: str) -> str:
    """The line that names the last exception, whose message may have more; otherwise the last one."""
    lines = stderr.strip().splitlines()
    traceback = max((i for i, line in enumerate(lines) if line.startswith("Traceback ")), default=None)
    if traceback is not None:
        return next((line for line in lines[traceback + 1 :] if line[:1].strip()), "")
    return next((line for line in reversed(lines) if line[:1].strip() and not WARNING.match(line)), "")


def execution_result(answer: Answer, stdout: str, stderr: str, limits: Mapping[str, Any]) -> ExecutionResult:
    """Determines the outcome of a program; nothing else does."""
    report = answer.report
    if answer.lost:
        duration_s = time.monotonic() - answer.started if answer.started is not None else None
        return ExecutionResult(Outcome.KILLED, terminal_line(answer.lost), duration_s, stdout=stdout, stderr=stderr)
    if "error" in report:
        return ExecutionResult(Outcome.INFRASTRUCTURE, report["error"])
    code = report["exit_code"]
    stderr_end = stderr[-STDERR_CHARS:]
    last_lines = [line for line in stderr_end.splitlines() if line.strip()][-5:]
    refused = [line[:500] for line in last_lines if any(words in line for words in OUT_OF_MEMORY_WORDS)]
    ended_by_us = {
        "timeout": (Outcome.TIMEOUT, f"still running after {limits['timeout_s']:g} s"),
        "memory": (Outcome.OUT_OF_MEMORY, f"its processes held more than {limits['memory_mb']} MB"),
        "processes": (Outcome.KILLED, f"ran more than {limits['max_processes']} processes"),
        "locks": (Outcome.KILLED, f"held more than {limits['max_locks']} locks on parts of files"),
        "disk": (Outcome.OUTPUT_LIMIT, f"wrote more than {limits['disk_mb']} MB of files"),
        "stopped": (Outcome.KILLED, "ended by the caller"),
    }
    if report["over_memory"] and code != 0:
        outcome, detail = Outcome.OUT_OF_MEMORY, "the kernel ended processes in its control group for memory"
    elif report["reason"] in ended_by_us:
        outcome, detail = ended_by_us[report["reason"]]
    elif code == 0:
        outcome, detail = Outcome.OK, report.get("submission_error", "")
    elif code == -signal.SIGKILL and report["oom_kills"] > 0:
        outcome, detail = Outcome.OUT_OF_MEMORY, "SIGKILL, and the kernel's oom_kill counter rose"
    elif code in (-signal.SIGABRT, 1) and refused:
        outcome, detail = Outcome.OUT_OF_MEMORY, refused[-1]
    elif code < 0:
        names = {number.value: number.name for number in signal.Signals}  # most real-time signals have none
        outcome, detail = Outcome.KILLED, f"signal {names.get(-code, -code)}"
    else:
        outcome, detail = Outcome.ERROR, _reason(stderr_end)[:500] or f"exit code {code}"
    return ExecutionResult(
        outcome,
        terminal_line(detail),
        duration_s=report["duration_s"],
        cpu_s=report["cpu_s"],
        max_rss_mb=report["max_rss_mb"],
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        submission=answer.submission,
    )
