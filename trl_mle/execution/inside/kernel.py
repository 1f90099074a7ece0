"""The kernel features that isolate a program, as far as no maintained library offers them: namespaces, mounts,
capabilities, Landlock, and the installation of a seccomp filter (which libseccomp compiles outside).

It runs inside the sandbox, and uses the standard library alone. Every function raises `OSError` with
the name of the call that failed.
"""

import contextlib
import ctypes
import os
import signal
import stat
import struct
from collections.abc import Iterable
from typing import Any


# Constants of <sched.h>, <sys/mount.h>, <sys/prctl.h>, <linux/capability.h>: Python 3.11 has none of them.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
CLONE3 = 435  # number of the system call, the same on all architectures
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP = 1, 4, 8, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_RAISE = 2
SECCOMP_MODE_FILTER = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

# <linux/landlock.h>: numbers of the system calls (the same on all architectures) and access rights.
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FS_MAKE_CHAR, FS_MAKE_BLOCK, FS_REFER, FS_TRUNCATE, FS_IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
FS_ALL = (1 << 16) - 1
FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many of them each ABI has; later ones have all
NET_ALL = 0b11  # bind and connect of TCP
SCOPE_SIGNAL = 0b10
SCOPE_ALL = 0b11  # abstract unix sockets and signals
FS_ON_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV

# Access that a grant of Landlock gives below a path
GRANTS = {
    "list": FS_READ_DIR,
    "read": FS_READ_FILE | FS_READ_DIR,
    "run": FS_READ_FILE | FS_READ_DIR | FS_EXECUTE,
    "write": FS_ALL & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV),
    "device": FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV,
    "update": FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE,  # files that are there
}

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *args: Any) -> int:
    """Calls a libc function that returns -1 on failure, and raises `OSError` then."""
    result: int = getattr(libc, name)(*args)
    if result == -1:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{name}: {os.strerror(errno)}")
    return result


def prctl(option: int, *values: int) -> None:
    padded = (*values, 0, 0, 0, 0)[:4]
    call("prctl", option, *(ctypes.c_ulong(value) for value in padded))


def mount(source: str, target: str, fstype: str | None, flags: int, data: str | None = None) -> None:
    encoded = [value.encode() if value is not None else None for value in (source, target, fstype)]
    call("mount", *encoded, ctypes.c_ulong(flags), data.encode() if data is not None else None)


def write_text(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def fork_into_namespaces() -> int:
    """Like `os.fork`, but the child is pid 1 of new user, mount, pid, ipc, network and uts namespaces. unshare and
    fork would copy the page tables of a large parent twice. Handlers registered for forks do not run, so the caller
    must have no other thread."""
    namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS
    arguments = struct.pack("=11Q", namespaces, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)  # struct clone_args
    try:
        return call("syscall", CLONE3, arguments, ctypes.c_size_t(len(arguments)))
    except OSError as error:
        raise OSError(error.errno, f"clone3: {os.strerror(error.errno or 0)}") from error


def map_user(uid: int, gid: int) -> None:
    """Gives the first process of a new user namespace the ids that it had outside."""
    write_text("/proc/self/setgroups", "deny")
    write_text("/proc/self/uid_map", f"{uid} {uid} 1")
    write_text("/proc/self/gid_map", f"{gid} {gid} 1")


def set_capabilities(capabilities: int) -> None:
    """Keeps exactly these capabilities (a bit set), also across an exec."""
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    header = struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0)
    call("capset", header, struct.pack("=6I", low, low, low, high, high, high))
    for number in range(64):
        if capabilities >> number & 1:
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)


def permitted_capabilities() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm:"))


def become_guard(guard_uid: int, uid: int, keep: int) -> None:
    """Leaves uid 0 permanently. Afterwards this process can signal processes of `uid` and nothing else (`kill(-1)`),
    while they cannot signal or trace it. Keeps the available capabilities in `keep`."""
    prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(guard_uid, uid, guard_uid)
    set_capabilities(keep & permitted_capabilities())


def load_seccomp(filter_hex: str) -> None:
    """Installs the BPF program that the caller compiled with libseccomp."""
    instructions = bytes.fromhex(filter_hex)
    buffer = ctypes.create_string_buffer(instructions)
    program = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    call("prctl", PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program, ctypes.c_ulong(0), ctypes.c_ulong(0))


def landlock_abi() -> int:
    """Version of the kernel's Landlock interface; 0 if it is missing."""
    try:
        return call("syscall", LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_CREATE_RULESET_VERSION)
    except OSError:
        return 0


def scope_signals() -> None:
    """Lets this process and its descendants signal only each other (also with `kill(-1)`). Needs Landlock ABI 6, and
    no_new_privs or CAP_SYS_ADMIN."""
    _enforce(FS_REFER, 0, SCOPE_SIGNAL, [("/", FS_REFER)])  # without FS_REFER, no file could move to another folder


def _enforce(handled: int, net: int, scopes: int, rules: Iterable[tuple[str, int]]) -> None:
    """Restricts this process and its descendants, except for these rights at paths that exist."""
    attributes = struct.pack("=QQQ", handled, net, scopes)
    ruleset = call("syscall", LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path, rights in rules:
        with contextlib.suppress(FileNotFoundError):
            _allow(ruleset, path, rights)
    call("syscall", LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Adds a rule of Landlock: these rights, as far as they apply, at a path and below it."""
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights &= FS_ALL if stat.S_ISDIR(os.fstat(beneath).st_mode) else FS_ON_FILES
        if rights:
            rule = struct.pack("=Qi", rights, beneath)
            call("syscall", LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(beneath)


def restrict(grants: Iterable[tuple[str, str]], abi: int) -> None:
    """Restricts this process and its descendants permanently: only the grants of the file system (a path, and a key of
    `GRANTS`; missing paths are skipped), no TCP (from ABI 4), signals and abstract unix sockets only among themselves
    (from 6). Needs no_new_privs. https://docs.kernel.org/userspace-api/landlock.html"""
    handled = FS_ALL & (1 << FS_RIGHTS.get(abi, 16)) - 1
    # Earlier kernels accept fields of later ABIs that are zero
    net, scopes = NET_ALL if abi >= 4 else 0, SCOPE_ALL if abi >= 6 else 0
    _enforce(handled, net, scopes, ((path, handled & GRANTS[kind]) for path, kind in grants))
