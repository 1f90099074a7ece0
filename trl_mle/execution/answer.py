"""Reads a program's output and report from its sandbox, and determines the outcome."""

import contextlib
import json
import os
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
from trl_mle.execution.sandbox import SandboxError
from trl_mle.showing import terminal_line


TICK_S = 0.5  # how often a program's control group is checked
# Pause between two reads of the output: a program that prints byte by byte would keep the caller busy
PAUSE_S = 0.005
NO_BYTES = struct.pack("=I", 0)  # the message that a program has started
# Messages of programs that have used up their address space
OUT_OF_MEMORY_WORDS = ("MemoryError", "Unable to allocate", "std::bad_alloc", "Cannot allocate memory")
REPEATS = 4  # how many times an output's limit may be read in repeats


@dataclass
class Answer:
    """The data received from the sandbox of one program."""

    report: dict[str, Any] = field(default_factory=dict)
    submission: bytes | None = None
    started: float | None = None  # when the program did, by `time.monotonic()`
    over_limit: bool = False  # whether an output was too long
    lost: str = ""  # reason for a missing report

    def read(self, received: bytes) -> None:
        """Reads the data received after the message that the program started."""
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


class Output:
    """
    One bounded output stream. Repeated milestone lines, as printed by a loop, are dropped as they arrive: the work per
    byte does not depend on earlier output.
    """

    def __init__(self, limit: int, nonce: str):
        self.limit = limit
        self.nonce = nonce.encode()
        self.fed = 0
        self._content = bytearray()
        self._line = bytearray()  # the last line, which is incomplete
        self._seen: set[bytes] = set()  # lines printed by us
        self._within = True

    def feed(self, chunk: bytes) -> bool:
        """Adds a chunk; returns whether the stream is still within its limit."""
        if not self._within:
            return False
        *ended, rest = chunk.split(b"\n") if self.nonce else (chunk,)
        for line in ended:
            self._line += line + b"\n"
            if self.nonce not in self._line or self._is_new(bytes(self._line)):
                self._content += self._line
            self._line.clear()
        self._line += rest
        self.fed += len(chunk)
        # One of our lines may repeat often, but not so often that dropping the repeats keeps the caller busy.
        self._within = len(self._content) + len(self._line) <= self.limit and self.fed <= REPEATS * self.limit
        return self._within

    def _is_new(self, line: bytes) -> bool:
        is_new = line not in self._seen
        self._seen.add(line)
        return is_new

    def text(self) -> str:
        return (self._content + self._line)[: self.limit].decode("utf-8", errors="replace")


class ReportLost(SandboxError):
    """A program's report is missing: the process that sends it died, or was blocked for too long."""


def lost_report(evidence: str, duration_s: float) -> dict[str, Any]:
    """The replacement for a lost report that is the program's own failure."""
    return {
        "reason": "lost",
        "evidence": evidence,
        "exit_code": None,
        "duration_s": duration_s,
        "cpu_s": 0.0,
        "max_rss_mb": 0.0,
    }


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
        if not stopped and (answer.over_limit or group.over_memory() or stopping.is_set()):
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
        if job_socket.fileno() in waiting and any(fd in streams for fd, _ in events):
            report_alone.poll(PAUSE_S * 1000)
    answer.read(bytes(received))
    return answer


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return str(number)


def execution_result(
    answer: Answer,
    stdout: str,
    stderr: str,
    queue_wait_s: float,
    slot: int,
    limits: Mapping[str, Any],
) -> ExecutionResult:
    """Turns the end of a program into an outcome, in this one place; `limits` are those of the program."""
    report = answer.report
    if "error" in report:
        return ExecutionResult(Outcome.INFRASTRUCTURE, report["error"], queue_wait_s=queue_wait_s, slot=slot)
    code = report["exit_code"]
    last_lines = stderr.strip().splitlines()[-5:]
    last_line = (last_lines or [""])[-1][:500]
    refused = [line[:500] for line in last_lines if any(words in line for words in OUT_OF_MEMORY_WORDS)]
    if answer.over_limit:
        outcome, detail = Outcome.OUTPUT_LIMIT, f"wrote more than {limits['output_kb']} KB"
    elif report["over_memory"] and code != 0:
        outcome, detail = Outcome.OUT_OF_MEMORY, "the kernel ended processes in its control group for memory"
    elif report["reason"] == "lost":
        outcome, detail = Outcome.KILLED, report["evidence"]
    elif report["reason"] == "timeout":
        outcome, detail = Outcome.TIMEOUT, f"still running after {limits['timeout_s']:g} s"
    elif report["reason"] == "memory":
        outcome, detail = Outcome.OUT_OF_MEMORY, f"its processes held more than {limits['memory_mb']} MB"
    elif report["reason"] == "processes":
        outcome, detail = Outcome.KILLED, f"ran more than {limits['max_processes']} processes"
    elif report["reason"] == "locks":
        outcome, detail = Outcome.KILLED, f"held more than {limits['max_locks']} locks on parts of files"
    elif report["reason"] == "disk":
        outcome, detail = Outcome.OUTPUT_LIMIT, f"wrote more than {limits['disk_mb']} MB of files"
    elif report["reason"] == "stopped":
        outcome, detail = Outcome.KILLED, "ended by the caller"
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
        terminal_line(detail),
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
