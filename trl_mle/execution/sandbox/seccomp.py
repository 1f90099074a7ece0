"""The filter of system calls that no program may use, in any tier."""

import errno
import tempfile

import pyseccomp

from trl_mle.execution.sandbox import bubblewrap, landlock


# System calls that no solution needs and that reach beyond it: other processes' memory, namespaces and mounts, the
# kernel's keys, tracing, modules, clocks, memory that no limit counts, events of files that it may not read. They fail with EPERM; io_uring, which would run calls past the filter, and
# clone3, whose flags a filter cannot see, are said not to exist (libc then falls back on clone).
DENIED = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig
    fsmount fsopen fspick init_module inotify_init inotify_init1 ioperm iopl ioprio_set kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind
    memfd_create memfd_secret migrate_pages mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree
    perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace quotactl
    reboot request_key sched_setaffinity sched_setattr sched_setparam sched_setscheduler set_mempolicy setdomainname
    sethostname setns setpriority settimeofday shmget swapoff swapon syslog umount2 unshare userfaultfd vhangup
""".split()  # noqa: SIM905
ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup")
CLONE_NEW_ANY = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# Keep others from opening the data for as long as a lease lasts; report what they do
F_SETLEASE, F_NOTIFY = 1024, 1026


def seccomp_filter(tier: str) -> bytes:
    """The system-call filter of a program, as BPF instructions."""
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    forbidden, absent = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOSYS)
    actions = dict.fromkeys(DENIED, forbidden) | dict.fromkeys(ABSENT, absent)
    (landlock if tier == "landlock" else bubblewrap).add_rules(filter_)
    for name, action in actions.items():
        filter_.add_rule(action, name)
    for flag in CLONE_NEW_ANY:
        filter_.add_rule(forbidden, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in (TIOCSTI, TIOCLINUX):
        filter_.add_rule(forbidden, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    for command in (F_SETLEASE, F_NOTIFY):
        filter_.add_rule(forbidden, "fcntl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, command))
    filter_.add_rule(forbidden, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.seek(0)
        return file.read()
