"""The tier `"bubblewrap"`: namespaces, for machines that allow them.

A program reaches its own working folder, /tmp and /dev/shm (one sized tmpfs), and, read-only, the competition's public
files, the Python environment (see [`Interpreter`]) and /usr. It has no network, sees no other process, holds no
capability, runs as an unprivileged uid, and may use a filtered set of system calls.
"""

import errno
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

import pyseccomp

from trl_mle.execution import inside
from trl_mle.execution.sandbox.error import SandboxError
from trl_mle.execution.sandbox.interpreter import SYSTEM, Interpreter
from trl_mle.execution.sandbox.tier import INPUT, SCRATCH, WORKDIR, Tier


# The uid of programs that root starts; any that owns nothing will do
SANDBOX_UID = 65533

LIBRARY = "/sandbox/lib/inside"
# Binds each source to a numbered place in a folder, and goes on
STAGE = (
    'stage=$1; shift; mount -t tmpfs -o mode=755,size=1m tmpfs "$stage"; i=0; '
    'while [ "$1" != -- ]; do if [ -d "$1" ]; then mkdir "$stage/$i"; else : > "$stage/$i"; fi; '
    'mount --bind "$1" "$stage/$i"; i=$((i+1)); shift; done; shift; exec "$@"'
)


@dataclass(frozen=True)
class Bubblewrap(Tier):
    """Namespaces, made by bubblewrap for the warm parent and by the warm parent for each program."""

    name = "bubblewrap"
    remedy = (
        "Install bubblewrap (`apt-get install bubblewrap`) and allow it user namespaces and mounts, which containers "
        "often forbid (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--cap-add SYS_ADMIN) and Ubuntu 24.04 restricts (sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )
    namespaces: bool = True

    def check_available(self) -> None:
        if shutil.which("bwrap") is None:
            raise SandboxError("bubblewrap is missing")

    def add_rules(self, filter_: pyseccomp.SyscallFilter) -> None:
        """Denies all sockets except Unix ones."""
        filter_.add_rule(pyseccomp.ERRNO(errno.EPERM), "socket", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))

    def command(self, control_fd: int, bound: Path, folder: Path, gpus: bool, python: Interpreter) -> list[str]:
        """See [`Tier.command`]. As root, the folders for programs are bound below `folder`, in a private mount
        namespace: the sandbox's uid may not have access to their real paths."""
        sources = [*python.folders, str(bound), os.path.dirname(inside.__file__)]
        targets = [*python.folders, INPUT, LIBRARY]
        prefix: list[str] = []
        if os.geteuid() == 0:
            stage = str(folder / "stage")
            os.mkdir(stage)
            prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", STAGE, "sh", stage, *sources]
            prefix += ["--", "setpriv", f"--reuid={SANDBOX_UID}", f"--regid={SANDBOX_UID}", "--clear-groups"]
            prefix += ["--no-new-privs"]
            sources = [f"{stage}/{i}" for i in range(len(sources))]
        command = [str(shutil.which("bwrap")), "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"]
        command += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
        command += ["--ro-bind", "/usr", "/usr"]
        for link in SYSTEM[1:]:
            if os.path.islink(link):
                command += ["--symlink", os.readlink(link), link]
            elif os.path.isdir(link):
                command += ["--ro-bind", link, link]
        for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
            command += ["--ro-bind-try", name, name]
        command += ["--tmpfs", "/tmp"]  # noqa: S108  # the warm parent's, as its home: programs have their own
        for source, target in zip(sources, targets, strict=True):
            command += ["--ro-bind", source, target]
        for view in python.views(python.hidden_folders()):
            command += ["--tmpfs", view, "--remount-ro", view]
        command += ["--proc", "/proc", "--dev", "/dev", "--dir", WORKDIR, "--dir", SCRATCH]
        if gpus:
            for path in Path("/dev").glob("nvidia*"):
                command += ["--dev-bind", str(path), str(path)]
        command += ["--tmpfs", "/dev/shm"]  # noqa: S108  # the warm parent's: joblib looks there for semaphores
        command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
        return [*prefix, *command, "--", python.executable, "-P", f"{LIBRARY}/__main__.py", str(control_fd)]
