"""How untrusted programs are kept apart from everything else, and the check that they are.

`"bubblewrap"`: a program reaches its own working folder, /tmp and /dev/shm (one sized tmpfs), and, read-only, the
competition's public files, the Python environment and /usr. It has no network, sees no other process, holds no
capability, runs as an unprivileged uid, and may use a filtered set of system calls.

`"none"`: a program reaches everything that the calling user can reach, for programs that you trust. Limits, timeouts and
the end of the whole process tree hold here too.
"""

import errno
import json
import logging
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pyseccomp


logger = logging.getLogger(__name__)

# Where a program that runs as root's child continues as; any uid that owns nothing will do.
SANDBOX_UID = 65533

# Inside the sandbox, in a folder of their own, because a Python environment may lie anywhere else.
WORKDIR, INPUT, SCRATCH, LIBRARY = "/sandbox/work", "/sandbox/input", "/sandbox/scratch", "/sandbox/lib"

# Imported once by the warm parent; a program that imports something else pays for it itself.
PACKAGES = [
    "numpy", "pandas", "scipy.sparse", "scipy.stats", "scipy.optimize",
    "sklearn.base", "sklearn.calibration", "sklearn.cluster", "sklearn.compose", "sklearn.decomposition",
    "sklearn.discriminant_analysis", "sklearn.dummy", "sklearn.ensemble", "sklearn.feature_extraction.text",
    "sklearn.feature_selection", "sklearn.gaussian_process", "sklearn.impute", "sklearn.linear_model",
    "sklearn.metrics", "sklearn.model_selection", "sklearn.multiclass", "sklearn.multioutput", "sklearn.naive_bayes",
    "sklearn.neighbors", "sklearn.neural_network", "sklearn.pipeline", "sklearn.preprocessing", "sklearn.svm",
    "sklearn.tree",
]  # fmt: skip

# System calls that no solution needs and that reach beyond it: other processes' memory, namespaces and mounts, the
# kernel's keys, tracing, modules, clocks, memory that no limit counts. They fail with EPERM; io_uring, which would run calls past the filter, and
# clone3, whose flags a filter cannot see, are said not to exist (libc then falls back on clone).
DENIED = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig
    fsmount fsopen fspick init_module ioperm iopl ioprio_set kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind
    memfd_create memfd_secret migrate_pages mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree
    perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace quotactl
    reboot request_key sched_setaffinity sched_setattr sched_setparam sched_setscheduler set_mempolicy setdomainname
    sethostname setns setpriority settimeofday shmget swapoff swapon syslog umount2 unshare userfaultfd vhangup
""".split()  # noqa: SIM905
ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup")
CLONE_NEW_ANY = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C


REMEDY = (
    "bubblewrap needs user namespaces and mounts, which containers often forbid (Docker: --security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN) and Ubuntu 24.04 restricts (sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0); or run programs with sandbox='none', which gives them every right "
    "that you have"
)


class SandboxError(RuntimeError):
    """Programs cannot be isolated on this machine; the message says what to install."""


def seccomp_filter() -> bytes:
    """The system-call filter of a program, as BPF instructions."""
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    forbidden, absent = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOSYS)
    for name in DENIED:
        filter_.add_rule(forbidden, name)
    for name in ABSENT:
        filter_.add_rule(absent, name)
    for flag in CLONE_NEW_ANY:
        filter_.add_rule(forbidden, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in (TIOCSTI, TIOCLINUX):
        filter_.add_rule(forbidden, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    filter_.add_rule(forbidden, "socket", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))
    filter_.add_rule(forbidden, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.seek(0)
        return file.read()


def choose_tier(sandbox: str) -> str:
    """
    Args:
        sandbox (`str`):
            `"auto"` takes the strongest tier of this machine and refuses where there is none; `"none"` isolates nothing.

    Returns:
        `str`: `"bubblewrap"` or `"none"`.

    Raises:
        `SandboxError`: With `"auto"`, where programs cannot be isolated.
    """
    if sandbox == "none":
        logger.warning(
            "sandbox='none': the model's programs run with all rights of this user, network and files included"
        )
        return "none"
    if sandbox != "auto":
        raise SandboxError(
            f"sandbox={sandbox!r} is not known: use 'auto', or 'none' to run programs without isolation"
        )
    if shutil.which("bwrap") is None:
        raise SandboxError(
            "programs cannot be isolated: bubblewrap is missing. Install it (`apt-get install bubblewrap`), or run them "
            "with sandbox='none', which gives them every right that you have"
        )
    return "bubblewrap"


def _environment(threads: int, home: str) -> dict[str, str]:
    """The whole environment of a program: nothing of the caller's."""
    numeric = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM")
    return {
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "USER": "solution",
        "LOGNAME": "solution",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",  # equal programs do equal things
        "PYTHONDONTWRITEBYTECODE": "1",
        "LOKY_MAX_CPU_COUNT": str(threads),
        **{f"{name}_NUM_THREADS": str(threads) for name in numeric},
    }


def python_folders() -> list[str]:
    """The folders that the running interpreter and its packages live in, outermost only, /usr left out."""
    # uv and others reach the base through a link, which has to be there too.
    folders = sorted(
        {os.path.realpath(sys.base_prefix), os.path.abspath(sys.base_prefix), os.path.abspath(sys.prefix)}
    )
    return [
        folder
        for folder in folders
        if not folder.startswith("/usr/")
        and folder != "/usr"
        and not any(folder.startswith(other + "/") for other in folders if other != folder)
    ]


def _bundled_data() -> list[str]:
    """Folders with the data that the local competitions are made of, in every scikit-learn that a program can see: it
    must not look the labels up there."""
    patterns = [
        f"{below}lib/python3*/{packages}/sklearn/datasets/data"
        for below in ("", "local/", "envs/*/")  # Debian, conda
        for packages in ("site-packages", "dist-packages")
    ]
    found = {path for root in ("/usr", *python_folders()) for pattern in patterns for path in Path(root).glob(pattern)}
    return sorted(map(str, found))


def zygote_command(
    tier: str, control_fd: int, public_dir: Path, packages: list[str], run_dir: Path, fixed: dict
) -> list[str]:
    """
    The command line that starts the warm parent (`zygote.py`) for one competition.

    Args:
        tier (`str`):
            Of [`choose_tier`].
        control_fd (`int`):
            Inheritable file descriptor of the zygote's end of the control socket.
        public_dir (`Path`):
            What programs see, read-only, as `input/`.
        packages (`list[str]`):
            Modules to import before the first program.
        run_dir (`Path`):
            The executor's own folder. As root, what programs see is bound below it, in a private mount namespace: the
            sandbox's uid may not be allowed to walk to where it lies (a Python environment in root's home, say).
        fixed (`dict`):
            Fields that are equal in the jobs of all programs.
    """
    folders = python_folders()
    settings = json.dumps({"fixed": fixed, "packages": packages})
    if tier == "none":
        zygote = str(Path(__file__).with_name("zygote.py"))
        return [sys.executable, "-P", "-s", zygote, str(control_fd), settings]

    sources = [*folders, str(public_dir), str(Path(__file__).parent)]
    targets = [*folders, INPUT, LIBRARY]
    as_root = os.geteuid() == 0
    prefix: list[str] = []
    if as_root:
        stage = tempfile.mkdtemp(prefix="stage-", dir=run_dir)
        script = (
            'stage=$1; shift; mount -t tmpfs -o mode=755,size=1m tmpfs "$stage"; i=0; '
            'while [ "$1" != -- ]; do mkdir "$stage/$i"; mount --bind "$1" "$stage/$i"; i=$((i+1)); shift; done; shift; exec "$@"'
        )
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", stage, *sources, "--"]
        prefix += ["setpriv", f"--reuid={SANDBOX_UID}", f"--regid={SANDBOX_UID}", "--clear-groups", "--no-new-privs"]
        sources = [f"{stage}/{i}" for i in range(len(sources))]
    command = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    command += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"]
    for name, value in _environment(fixed["threads"], "/tmp").items():  # noqa: S108
        command += ["--setenv", name, value]
    command += ["--ro-bind", "/usr", "/usr"]
    for link in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(link):
            command += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            command += ["--ro-bind", link, link]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        command += ["--ro-bind-try", name, name]
    for source, target in zip(sources, targets, strict=True):
        command += ["--ro-bind", source, target]
    for folder in _bundled_data():
        command += ["--tmpfs", folder, "--remount-ro", folder]
    command += ["--proc", "/proc", "--dev", "/dev", "--dir", WORKDIR, "--dir", SCRATCH, "--dir", "/tmp"]  # noqa: S108
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    command += ["--", sys.executable, "-P", "-s", f"{LIBRARY}/zygote.py", str(control_fd), settings]
    return [*prefix, *command]


def zygote_environment(tier: str, threads: int, run_dir: Path) -> dict[str, str]:
    """What the process that becomes the zygote is started with."""
    if tier == "none":
        return _environment(threads, str(run_dir))
    return {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}


# What no program may be able to do. It prints one word per success; silence is isolation.
PROBE = """
import os, socket
def tries(name, action):
    try:
        action()
    except OSError:
        return
    print(name)
tries("labels", lambda: open({secret!r}).read())
tries("network", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=1))
tries("data", lambda: open("input/probe", "w"))
tries("system", lambda: open("/usr/probe", "w"))
tries("root", lambda: os.setuid(0))
print("checked")
"""
