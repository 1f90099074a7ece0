"""What comes out of the sandbox of one program, and the outcome that it amounts to."""

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


TICK_S = 0.5  # how often a program's control group is looked at
# Between two looks at its output: a program that prints byte by byte would keep the caller from its work
PAUSE_S = 0.005
NO_BYTES = struct.pack("=I", 0)  # the message that a program has started
# What a program says whose address space is used up.
OUT_OF_MEMORY_WORDS = ("MemoryError", "Unable to allocate", "std::bad_alloc", "Cannot allocate memory")
REPEATS = 4  # how often an output's limit may be fed with repeats


@dataclass
class Answer:
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


class Output:
    """
    One bounded output stream. Repeats of a milestone's line, as a loop prints them, are dropped as they come: the work for a
    byte does not depend on what came before it.
    """

    def __init__(self, limit: int, nonce: str):
        self.limit = limit
        self.nonce = nonce.encode()
        self.fed = 0
        self._content = bytearray()
        self._line = bytearray()  # the last one, which has no end yet
        self._seen: set[bytes] = set()  # lines of ours
        self._within = True

    def feed(self, chunk: bytes) -> bool:
        """Takes a chunk; returns whether the stream is still within its limit."""
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
        # The repeats of one line of ours may be many, but not so many that dropping them keeps the caller from its work.
        self._within = len(self._content) + len(self._line) <= self.limit and self.fed <= REPEATS * self.limit
        return self._within

    def _is_new(self, line: bytes) -> bool:
        is_new = line not in self._seen
        self._seen.add(line)
        return is_new

    def text(self) -> str:
        return (self._content + self._line)[: self.limit].decode("utf-8", errors="replace")


class ReportLost(SandboxError):
    """No report came of a program: the process that was to send it died, or was kept from it for too long."""


def lost_report(evidence: str, duration_s: float) -> dict[str, Any]:
    """The report in place of a lost one that is the program's own failure."""
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
    """Drains both outputs until the report has come, or is lost; ends a program that is to stop."""
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


def _printable(text: str) -> str:
    """A line of a program's, as a terminal may show it: what would move its cursor or rename it is spelled out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def execution_result(
    answer: Answer,
    stdout: str,
    stderr: str,
    queue_wait_s: float,
    slot: int,
    limits: Mapping[str, Any],
) -> ExecutionResult:
    """The one place where the end of a program becomes an outcome; its `limits` are those that the warm parent knows."""
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
        _printable(detail),
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
