"""A back end that is not in this package, as a user may write one."""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from trl_mle.execution import ExecutionResult, Executor, Limits, Outcome, ProgramFuture


class SubprocessExecutor(Executor):
    """Runs programs as plain subprocesses, two at a time."""

    limits = Limits(timeout_s=30, memory_mb=1024)
    description = "programs are plain subprocesses"
    made: ClassVar[list["SubprocessExecutor"]] = []

    def __init__(self, timeout_s=30, memory_mb=1024, threads_per_program=1, max_parallel=None):
        self.options = (timeout_s, memory_mb, threads_per_program, max_parallel)
        self.made.append(self)
        self.threads = ThreadPoolExecutor(2)
        self.checked, self.count, self.closed = [], 0, False

    def check(self, competition):
        self.checked.append(competition.id)

    def submit(self, program, competition):
        self.count += 1
        future = ProgramFuture()
        future.follow(self.threads.submit(self.execute, getattr(program, "source", program), competition, future))
        return future

    def execute(self, source, competition, future):
        future.set_running_or_notify_cancel()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "input").symlink_to(competition.public_dir)
            began, command = time.monotonic(), [sys.executable, "-c", source]
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=self.limits.timeout_s)
            seconds, outcome = time.monotonic() - began, Outcome.ERROR if ended.returncode else Outcome.OK
            path = Path(folder, "submission.csv")
            kept = {"stdout": ended.stdout, "stderr": ended.stderr}
            return ExecutionResult(
                outcome, duration_s=seconds, submission=path.read_bytes() if path.exists() else None, **kept
            )

    def longest_s(self, programs):
        return self.limits.timeout_s * programs

    def close(self):
        self.threads.shutdown()
        self.closed = True
