"""The interface to a warm parent (`inside/`), from outside the sandbox."""

import contextlib
import json
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from trl_mle.execution.executor import START_TIMEOUT_S
from trl_mle.execution.sandbox import CheckUnfinished, SandboxError, Tier
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.program_environment import environment_variables
from trl_mle.execution.slots import started_on
from trl_mle.waits import waiting_for


MAX_WARM_PARENTS = 16  # at a time, about 130 MB each, of large competitions; more only if all are in use


class WarmParent:
    """A warm parent. Raises `SandboxError` if it did not start, `CheckUnfinished` if not in time."""

    def __init__(
        self,
        tier: Tier,
        bound: Path,
        packages: Sequence[str],
        run_dir: Path,
        fixed: dict,
        python: Interpreter,
        cores: Sequence[int],
    ):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lock = threading.Lock()
        self.users = 0  # programs that run or start; whoever closes it looks first
        self.folder = Path(tempfile.mkdtemp(prefix="parent-", dir=run_dir))
        self.folder.chmod(0o711)  # the sandbox's uid must be able to reach what is below
        fixed = fixed | tier.settings(fixed["gpus"], python)
        environment = environment_variables(fixed["threads"], python, tier)
        if not tier.namespaces:  # /tmp is everybody's
            environment["HOME"] = str(self.folder)
        with theirs, tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile() as errors:
            json.dump({"packages": packages, "fixed": fixed}, stdin)
            stdin.seek(0)
            with started_on(cores):
                self.process = subprocess.Popen(
                    tier.command(theirs.fileno(), bound, self.folder, fixed["gpus"], python),
                    env=environment,
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
                with waiting_for(f"the sandbox ({tier}) to start and to import its packages"):
                    ready = self.control.recv(16)
            except TimeoutError as error:
                self.close()
                raise CheckUnfinished(f"the sandbox ({tier}) did not start within {START_TIMEOUT_S:.0f} s") from error
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
        self.control.close()  # it ends on this, and everything in its pid namespace with it
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class WarmParents:
    """The warm parents of an executor, by the folder that their sandbox shows."""

    def __init__(self, start: Callable[[Path], WarmParent]):
        self._start = start
        self._running: dict[Path, WarmParent] = {}
        self._lock = threading.Lock()
        self._closed = False

    @contextlib.contextmanager
    def use(self, bound: Path) -> Iterator[WarmParent]:
        """The warm parent for this folder, which stays open meanwhile."""
        with self._lock:
            warm_parent = self._find(bound)
            with warm_parent.lock:
                warm_parent.users += 1
        try:
            yield warm_parent
        finally:
            with warm_parent.lock:  # not the other one, which is held while a warm parent starts
                warm_parent.users -= 1

    def _find(self, bound: Path) -> WarmParent:
        if self._closed:
            raise SandboxError("the executor is closed")
        warm_parent = self._running.pop(bound, None)
        if warm_parent is not None and warm_parent.process.poll() is not None:  # killed from outside
            warm_parent.close()
            warm_parent = None
        if warm_parent is None:
            for other, idle in list(self._running.items()):  # the least recently used first
                if len(self._running) >= MAX_WARM_PARENTS and not idle.users:
                    del self._running[other]
                    idle.close()
            warm_parent = self._start(bound)
        self._running[bound] = warm_parent  # the last: the one that was used last
        return warm_parent

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for warm_parent in self._running.values():
                warm_parent.close()


def send_job(job_socket: socket.socket, job: dict[str, Any], fds: list[int]) -> None:
    """Sends a program to its init, with the file descriptors that it needs."""
    payload = json.dumps(job).encode()
    with contextlib.suppress(BrokenPipeError):  # then a report says why
        # With the length alone, so that they arrive before a large payload is read.
        socket.send_fds(job_socket, [struct.pack("=I", len(payload))], fds)
        job_socket.sendall(payload)
