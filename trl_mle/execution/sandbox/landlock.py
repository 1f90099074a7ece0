"""The tier `"landlock"`, for containers without user namespaces (Linux 6.12, or 5.13 if root starts the programs).

A program reaches the same files as with bubblewrap, except /tmp and /dev/shm, and it sees that others exist. Disk,
processes (if you are not root) and memory are monitored, so it may exceed limits for a tenth of a second. Landlock
controls signals from ABI 6 on (Linux 6.12). On earlier kernels root must start the programs: each then has a uid that
no other program has, and its init another. The filter of system calls closes everything else that earlier ABIs leave
open.
"""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyseccomp

from trl_mle.execution.inside import kernel
from trl_mle.execution.sandbox.error import SandboxError
from trl_mle.execution.sandbox.interpreter import SYSTEM, Interpreter
from trl_mle.execution.sandbox.tier import Tier


# Landlock does not cover owners, modes, times and attributes, nor truncation before ABI 3. Nothing shows descriptors
# in flight between sockets. Changes of modes and times succeed without effect, because copying a file makes them.
DENIED = """
    chown fchown fchownat fremovexattr fsetxattr lchown lremovexattr lsetxattr removexattr sendmmsg sendmsg setxattr
    socket truncate
""".split()  # noqa: SIM905
NEW_CALLS = (463, 466)  # setxattrat, removexattrat: libseccomp has no names yet
IGNORED = "chmod fchmod fchmodat fchmodat2 futimesat utime utimensat utimes".split()  # noqa: SIM905
CHANGE_FLAGS = (0x40086602, 0x401C5820, 0x40806685)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY


@dataclass(frozen=True)
class Landlock(Tier):
    """Landlock's rules and a longer filter of system calls, in place of namespaces."""

    name = "landlock"
    remedy = "use Linux 6.12 or newer (as root, 5.13) with Landlock"
    own_uids: bool = field(default_factory=lambda: os.geteuid() == 0)
    landlock_abi: int = field(default_factory=lambda: kernel.landlock_abi())

    def check_available(self) -> None:
        if self.landlock_abi < 1:
            raise SandboxError("the kernel has no Landlock, which Linux has from 5.13 on, if it is configured so")
        if self.landlock_abi < 6 and not self.own_uids:
            raise SandboxError(
                f"the kernel's Landlock has ABI {self.landlock_abi}, and 6 is needed (Linux 6.12), or root as the user"
            )

    def settings(self, gpus: bool, python: Interpreter) -> dict[str, Any]:
        return {"grants": grants(gpus, python)}

    def input_settings(self, folder: Path, python: Interpreter) -> dict[str, Any]:
        return {"keep_capabilities": capabilities(folder, python)}

    def add_rules(self, filter_: pyseccomp.SyscallFilter) -> None:
        """Denies access to resources that namespaces isolate, and Landlock does not."""
        forbidden, ignored = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(0)
        for name in (*DENIED, *NEW_CALLS):
            filter_.add_rule(forbidden, name)
        for name in IGNORED:
            filter_.add_rule(ignored, name)
        for request in CHANGE_FLAGS:
            filter_.add_rule(forbidden, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
        # Landlock does not check these flags: the first empties a file opened for reading (before ABI 3), the second
        # opens a device for ioctl alone (before ABI 5). A filter cannot see the flags of openat2.
        for name, position in (("open", 1), ("openat", 2)):
            for mask, flags in ((os.O_TRUNC | os.O_ACCMODE, os.O_TRUNC | os.O_RDONLY), (os.O_ACCMODE, os.O_ACCMODE)):
                filter_.add_rule(forbidden, name, pyseccomp.Arg(position, pyseccomp.MASKED_EQ, mask, flags))
        filter_.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "openat2")


def _without(folder: str, hidden: set[str], kind: str) -> Iterator[tuple[str, str]]:
    """Grants for everything in a folder except hidden parts, because Landlock can only allow. Names stay visible."""
    if not any(path.startswith(folder + "/") for path in hidden):
        yield folder, kind
        return
    yield folder, "list"
    with os.scandir(folder) as entries:
        for entry in entries:  # a link's target has its own grant
            if entry.path not in hidden and not entry.is_symlink():
                yield from _without(entry.path, hidden, kind)


def grants(gpus: bool, python: Interpreter) -> list[tuple[str, str]]:
    """The files that every program can access under Landlock, besides its input, see `kernel.restrict`."""
    hidden = python.hidden_folders()
    roots = {os.path.realpath(path) for path in (*SYSTEM, *python.folders)}
    found = [grant for root in sorted(roots) if os.path.exists(root) for grant in _without(root, hidden, "run")]
    files = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
    # pip, the Hub's client and joblib (which counts cores) expect that they can read files that exist
    system = ("/etc/debian_version", "/etc/ssl/certs", "/etc/ssl/openssl.cnf")
    quotas = [f"/sys/fs/cgroup/{name}" for name in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")]
    found += [(path, "read") for path in (*files, *system, *quotas, "/sys/devices/system/cpu")]
    devices = ["null", "full", "random", "urandom"]  # no "zero", whose mappings are memory that nothing counts
    if gpus:
        devices += [path.name for path in Path("/dev").glob("nvidia*")]
        # CUDA reads them when it starts
        found += [(f"/proc/driver/{name}", "read") for name in ("nvidia", "nvidia-uvm")]
    return found + [(f"/dev/{name}", "device") for name in devices]


def _others_may_enter(path: str) -> bool:
    path = path if os.path.isdir(path) else os.path.dirname(path)
    while os.stat(path).st_mode & stat.S_IXOTH:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def capabilities(public_dir: Path, python: Interpreter) -> int:
    """The only capability, if any, that a program started by root keeps under Landlock: to reach the Python
    environment and the data inside a folder that others may not enter."""
    folders = [*map(os.path.realpath, python.folders), os.path.realpath(public_dir)]
    if os.geteuid() != 0 or all(map(_others_may_enter, folders)):
        return 0
    for number in (kernel.CAP_DAC_READ_SEARCH, kernel.CAP_DAC_OVERRIDE):  # containers often have the second alone
        if kernel.permitted_capabilities() >> number & 1:
            return 1 << number
    raise SandboxError(f"the programs' uid may not enter {' or '.join(folders)}: make them searchable (chmod o+x)")
