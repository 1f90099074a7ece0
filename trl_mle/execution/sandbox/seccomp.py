"""The filter of system calls that no program may use, in any tier."""

import errno
import os
import resource
import socket
import tempfile

import pyseccomp

from trl_mle.execution.inside import kernel
from trl_mle.execution.sandbox.tier import Tier


# System calls that no solution needs and that reach beyond it: other processes' memory, namespaces and mounts, the
# kernel's keys, tracing, modules, clocks, events of unreadable files, resources that the whole machine shares
# (io_setup), and memory that no limit counts (queues, semaphores, sandbox rules). They fail with EPERM. Others fail
# with ENOSYS, as if the kernel lacked them: io_uring, which bypasses the filter; clone3, whose flags a filter cannot
# see (libc falls back to clone); calls that leave pages in pipes and sockets, where no limit counts them (programs
# then copy by read and write); calls that tell which parts of a file are in memory, where earlier programs can leave a
# note; newer calls.
DENIED = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig
    fsmount fsopen fspick init_module inotify_init inotify_init1 io_setup ioperm iopl ioprio_set kcmp kexec_file_load
    kexec_load keyctl landlock_create_ruleset lookup_dcookie mbind memfd_create memfd_secret migrate_pages mount
    mount_setattr move_mount move_pages mq_open mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at nfsservctl
    open_by_handle_at open_tree perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv
    process_vm_writev ptrace quotactl quotactl_fd reboot request_key sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler seccomp semctl semget semop semtimedop set_mempolicy setdomainname sethostname setns
    settimeofday shmat shmctl shmget swapoff swapon syslog umount2 unshare userfaultfd vhangup
""".split()  # noqa: SIM905
ABSENT = """
    clone3 io_uring_enter io_uring_register io_uring_setup mincore sendfile splice tee vmsplice
""".split()  # noqa: SIM905
CACHESTAT = 451  # number of the system call, the same on all architectures: older libseccomp has no name for it
NEWER = range(467, 512)
IGNORED = ("sync", "syncfs")  # they flush the whole machine's writes
CLONE_NEW_ANY = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
CLONE_FILES, CLONE_THREAD = 0x00000400, 0x00010000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# Leases, which keep others from opening the data; reports of what others do; locks without a visible owner; hints on
# the data, which their owner, a plain user's program, may set without writing
F_SETLEASE, F_NOTIFY, F_OFD_SETLK, F_OFD_SETLKW = 1024, 1026, 37, 38
F_SET_RW_HINT, F_SET_FILE_RW_HINT = 1036, 1038
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 0x1, 0x20, 0x40000
# Socket options that load programs into the kernel, where one limit holds for the whole machine
SOCKET_PROGRAMS = (26, 50, 51, 52)  # SO_ATTACH_FILTER, SO_ATTACH_BPF, and those of SO_ATTACH_REUSEPORT
PR_SCHED_CORE = 62  # keeps others from the second thread of a core
# Drops the data from the machine's memory, which slows down the next reader
MADV_PAGEOUT = 21
SOCKET_BUFFERS = (socket.SO_SNDBUF, socket.SO_RCVBUF)  # the machine may allow very large ones


def _is(position: int, value: int, mask: int = 0xFFFFFFFF) -> pyseccomp.Arg:
    """Compares an argument with a value, in 32 bits, as the kernel does for most."""
    return pyseccomp.Arg(position, pyseccomp.MASKED_EQ, mask, value)


def seccomp_filter(tier: Tier, memory_is_bounded: bool, gpus: bool) -> bytes:
    """The system-call filter of a program, as BPF instructions. Without a control group that counts its memory, it
    also denies anonymous memory that processes share, because the kernel does not show how much of it there is.
    Programs that use GPUs may have it, and `memfd_create`, without which CUDA does not start (error 304, as
    https://github.com/NVIDIA/OpenShell/issues/1696 found): nothing bounds a GPU's own memory either. A file that it
    makes can be executed, under the same filter."""
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    forbidden, absent, ignored = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOSYS), pyseccomp.ERRNO(0)
    tier.add_rules(filter_)
    for name in DENIED:
        if not (gpus and name == "memfd_create"):
            filter_.add_rule(forbidden, name)
    for name in (*ABSENT, CACHESTAT, *NEWER):
        filter_.add_rule(absent, name)
    # Its flags read only what is in memory (RWF_NOWAIT), or leave nothing there (RWF_DONTCACHE)
    filter_.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "preadv2", pyseccomp.Arg(5, pyseccomp.NE, 0))
    for flag in CLONE_NEW_ANY:
        filter_.add_rule(forbidden, "clone", _is(0, flag, flag))
    # Locks of a process that has ended would survive, without an owner, in one that shares its table of files
    filter_.add_rule(forbidden, "clone", _is(0, CLONE_FILES, CLONE_FILES | CLONE_THREAD))
    for request in (TIOCSTI, TIOCLINUX):
        filter_.add_rule(forbidden, "ioctl", _is(1, request))
    for command in (F_SETLEASE, F_NOTIFY, F_OFD_SETLK, F_OFD_SETLKW, F_SET_RW_HINT, F_SET_FILE_RW_HINT):
        filter_.add_rule(forbidden, "fcntl", _is(1, command))
    for option in (kernel.PR_SET_SECCOMP, PR_SCHED_CORE):
        filter_.add_rule(forbidden, "prctl", _is(0, option))
    filter_.add_rule(ignored, "prctl", _is(0, kernel.PR_SET_DUMPABLE))  # its init must see what it holds
    filter_.add_rule(forbidden, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    # With any limit but 1, a crash runs the machine's handler of core dumps, as root, on the program's memory
    filter_.add_rule(forbidden, "setrlimit", _is(0, resource.RLIMIT_CORE))
    filter_.add_rule(forbidden, "prlimit64", _is(1, resource.RLIMIT_CORE), pyseccomp.Arg(2, pyseccomp.NE, 0))
    for name in IGNORED:
        filter_.add_rule(ignored, name)
    for argument in (0, 1):  # `os.nice` does nothing; others keep their priority
        filter_.add_rule(forbidden, "setpriority", pyseccomp.Arg(argument, pyseccomp.NE, 0))
    filter_.add_rule(ignored, "setpriority", *(pyseccomp.Arg(argument, pyseccomp.EQ, 0) for argument in (0, 1)))
    filter_.add_rule(ignored, "fadvise64", _is(3, os.POSIX_FADV_DONTNEED))
    filter_.add_rule(ignored, "madvise", _is(2, MADV_PAGEOUT))
    # One of a pair can send to any path, despite Landlock, and its messages outlive it
    for call in ("socket", "socketpair"):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            filter_.add_rule(forbidden, call, _is(1, kind, 0xF))
    for option in SOCKET_PROGRAMS:
        filter_.add_rule(forbidden, "setsockopt", _is(2, option))
    for option in SOCKET_BUFFERS:
        filter_.add_rule(ignored, "setsockopt", _is(2, option))
    filter_.add_rule(forbidden, "mmap", _is(3, MAP_HUGETLB, MAP_HUGETLB))
    if not memory_is_bounded and not gpus:
        shared = MAP_SHARED | MAP_ANONYMOUS
        filter_.add_rule(forbidden, "mmap", _is(3, shared, shared))
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.seek(0)
        return file.read()
