"""How untrusted programs are kept apart from everything else, and the check that they are.

`"bubblewrap"`: a program reaches its own working folder, /tmp and /dev/shm (one sized tmpfs), and, read-only, the
competition's public files, the Python environment (see [`SearchPath`]) and /usr. It has no network, sees no other process, holds no
capability, runs as an unprivileged uid, and may use a filtered set of system calls.

`"landlock"`, for containers without user namespaces (Linux 6.12 or newer): the same files, but the system's /tmp and
/dev/shm are out of reach, and a program sees that other files and processes exist. It signals, traces and reads no
other process and has no network; disk, processes (if you are not root) and memory of its process tree are watched, so
that it may overshoot for a tenth of a second. Started by root, it runs as a uid that no other program has at the time.

`"none"`: a program reaches everything that the calling user can reach, for programs that you trust. Limits, timeouts and
the end of the whole process tree hold here too.
"""

import errno
import functools
import json
import logging
import os
import shutil
import site
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyseccomp

from trl_mle.execution import inside
from trl_mle.execution.inside import kernel


logger = logging.getLogger(__name__)

# Where a program that runs as root's child continues as; any uid that owns nothing will do. Without user namespaces
# each slot has a uid of its own, so that limits and signals reach no other program.
SANDBOX_UID, FIRST_SLOT_UID = 65533, 57000

# Inside the sandbox, in a folder of their own, because a Python environment may lie anywhere else.
WORKDIR, INPUT, SCRATCH, LIBRARY = "/sandbox/work", "/sandbox/input", "/sandbox/scratch", "/sandbox/lib/inside"
INSIDE = os.path.dirname(os.path.abspath(inside.__file__))  # outside, what lies there as LIBRARY

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
# What every prompt says is installed, by the names that programs import.
REQUIRED = ("numpy", "pandas", "scipy", "sklearn", "PIL")
# Proves that programs have it: prints names and versions. What the warm parent has imported counts only if its file can
# be read, too.
IMPORTS = f"""
import importlib
for name in {REQUIRED}:
    try:
        module = importlib.import_module(name)
        open(module.__file__, "rb").close()
    except Exception as error:
        raise SystemExit(f"{{name}}: {{type(error).__name__}}: {{' '.join(str(error).split())}}")
    print(name, module.__version__)
"""

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
# Without namespaces, the kernel's shared memory, semaphores and queues are everybody's too, and Landlock says nothing of
# owners, modes, times and attributes. Changing a mode or a time does nothing then, and says it did: copying a file does.
DENIED_WITHOUT_NAMESPACES = """
    chown fchown fchownat fremovexattr fsetxattr lchown lremovexattr lsetxattr mq_open mq_unlink msgctl msgget msgrcv
    msgsnd removexattr semctl semget semop semtimedop setxattr shmat shmctl socket
""".split()  # noqa: SIM905
NEW_CALLS_WITHOUT_NAMESPACES = (463, 466, 469)  # setxattrat, removexattrat, file_setattr: libseccomp has no names yet
IGNORED_WITHOUT_NAMESPACES = "chmod fchmod fchmodat fchmodat2 futimesat utime utimensat utimes".split()  # noqa: SIM905
ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup")
CLONE_NEW_ANY = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
CHANGE_FLAGS = (0x40086602, 0x401C5820, 0x40806685)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY


TIERS = ("bubblewrap", "landlock")  # the strongest first
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # what programs see of the system, beside some files
REMEDY = (
    "Install bubblewrap (`apt-get install bubblewrap`) and allow it user namespaces and mounts, which containers often "
    "forbid (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN) and Ubuntu "
    "24.04 restricts (sysctl kernel.apparmor_restrict_unprivileged_userns=0); or use Linux 6.12 or newer with Landlock; "
    "or run programs with sandbox='none', which gives them every right that you have"
)


class SandboxError(RuntimeError):
    """
    Programs cannot be isolated on this machine, or lack what they are promised; the message says what to install.

    Args:
        reason (`str`):
            What does not work.
        remedy (`str`, *optional*, defaults to `""`):
            What to do about it.
    """

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


def seccomp_filter(tier: str) -> bytes:
    """The system-call filter of a program, as BPF instructions."""
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    forbidden, absent, ignored = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOSYS), pyseccomp.ERRNO(0)
    actions = dict.fromkeys(DENIED, forbidden) | dict.fromkeys(ABSENT, absent)
    if tier == "landlock":
        actions |= dict.fromkeys((*DENIED_WITHOUT_NAMESPACES, *NEW_CALLS_WITHOUT_NAMESPACES), forbidden)
        actions |= dict.fromkeys(IGNORED_WITHOUT_NAMESPACES, ignored)
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # one of a pair can send to any path, whatever Landlock says
            filter_.add_rule(forbidden, "socketpair", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xF, kind))
        for request in CHANGE_FLAGS:
            filter_.add_rule(forbidden, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
        # The files that it holds open must stay in sight of its init.
        filter_.add_rule(ignored, "prctl", pyseccomp.Arg(0, pyseccomp.EQ, kernel.PR_SET_DUMPABLE))
    else:
        filter_.add_rule(forbidden, "socket", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))
    for name, action in actions.items():
        filter_.add_rule(action, name)
    for flag in CLONE_NEW_ANY:
        filter_.add_rule(forbidden, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in (TIOCSTI, TIOCLINUX):
        filter_.add_rule(forbidden, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    filter_.add_rule(forbidden, "prlimit64", pyseccomp.Arg(0, pyseccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.seek(0)
        return file.read()


def candidate_tiers(sandbox: str) -> list[str]:
    """
    Args:
        sandbox (`str`):
            `"auto"`, the strongest tier that works on this machine; or the name of one.

    Returns:
        `list[str]`: Tiers to try, the strongest first.

    Raises:
        `SandboxError`: There is no such tier.
    """
    if sandbox == "auto":
        return list(TIERS)
    if sandbox == "none":
        logger.warning(
            "sandbox='none': the model's programs run with all rights of this user, network and files included"
        )
    elif sandbox not in TIERS:
        raise SandboxError(
            f"sandbox={sandbox!r} is not known: use 'auto', 'bubblewrap', 'landlock', or 'none' to run programs without "
            f"isolation"
        )
    return [sandbox]


def check_available(tier: str) -> None:
    """Raises `SandboxError` if this machine lacks what a tier is made of."""
    if tier == "bubblewrap" and shutil.which("bwrap") is None:
        raise SandboxError("bubblewrap is missing")
    if tier == "landlock" and (abi := kernel.landlock_abi()) < 6:
        raise SandboxError(f"the kernel's Landlock has ABI {abi}, and 6 is needed")


def environment(threads: int) -> dict[str, str]:
    """The whole environment of a program, but for its home. Of the caller's it has what `sys.path` is made of."""
    numeric = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "VECLIB_MAXIMUM")
    visible = search_path().visible
    has_user_site = site.getusersitepackages() in visible
    return {
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        **home_environment("/tmp"),  # noqa: S108
        "USER": "solution",
        "LOGNAME": "solution",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",  # equal programs do equal things
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(folder for folder in _python_path() if folder in visible),
        **({"PYTHONUSERBASE": site.getuserbase()} if has_user_site else {"PYTHONNOUSERSITE": "1"}),
        "LOKY_MAX_CPU_COUNT": str(threads),
        "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's thread: only a process with one can be forked
        **{f"{name}_NUM_THREADS": str(threads) for name in numeric},
    }


def home_environment(home: str) -> dict[str, str]:
    return {"HOME": home, "TMPDIR": home}


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> list[str]:
    distinct = sorted(set(paths))
    return [path for path in distinct if not any(_lies_in(path, other) for other in distinct if other != path)]


class SearchPath(NamedTuple):
    """
    The `sys.path` of a new interpreter: what exists, in its order.

    Args:
        visible (`list[str]`):
            Folders and zip files that programs see.
        left_out (`list[str]`):
            Those that they do not see, because more than packages lies there: a checkout of this package, the working
            folder, the user's home, /tmp, and what these lie in.
    """

    visible: list[str]
    left_out: list[str]


def _python_path() -> list[str]:
    """PYTHONPATH's folders. An empty one, the working folder, mostly comes of a colon too many."""
    if sys.flags.ignore_environment:
        return []
    return [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


@functools.cache
def search_path() -> SearchPath:
    """A new interpreter is asked, because `.pth` files add what they like, and this process' own `sys.path` has a script's
    folder and whatever was put there since."""
    flags = ["-P", *["-E"] * sys.flags.ignore_environment, *["-s"] * sys.flags.no_user_site]
    done = subprocess.run(
        [sys.executable, *flags, "-c", "import json, sys; print(json.dumps(sys.path))"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(_python_path())},
        stdout=subprocess.PIPE,
        check=True,
    )
    path = [entry for entry in json.loads(done.stdout.splitlines()[-1]) if os.path.exists(entry)]
    left_out = [entry for entry in path if _holds_more_than_packages(os.path.realpath(entry))]
    return SearchPath([entry for entry in path if entry not in left_out], left_out)


def _is_checkout(folder: str) -> bool:
    """Whether this package's source lies there: what makes the mirrors' labels, and tests that know good solutions."""
    return os.path.isdir(f"{folder}/trl_mle") and not any(Path(folder).glob("trl_mle-*.dist-info"))


def _holds_more_than_packages(folder: str) -> bool:
    if _is_checkout(folder):
        return True
    if any(_lies_in(folder, os.path.realpath(root)) for root in (*SYSTEM, sys.prefix, sys.base_prefix)):
        return False  # these are seen whole
    source = str(Path(__file__).parents[2])
    private = [os.getcwd(), os.path.expanduser("~"), "/tmp", *[source] * _is_checkout(source)]  # noqa: S108
    return any(_lies_in(os.path.realpath(place), folder) for place in private)


def python_folders() -> list[str]:
    """What the running interpreter and its packages live in, outermost folders and zip files only, the system's left out."""
    roots = (sys.prefix, sys.base_prefix, *search_path().visible)
    # uv and others reach the base through a link, which has to be there too.
    paths = [path for root in roots for path in (os.path.abspath(root), os.path.realpath(root))]
    return _outermost(path for path in paths if not any(_lies_in(path, root) for root in SYSTEM))


def check_labels_hidden(competition_id: str, public_dir: Path) -> None:
    """Raises `SandboxError` if a competition's data lie where every program can read, its labels among them."""
    folder = os.path.realpath(public_dir.parent)
    for prefix in map(os.path.realpath, ("/usr", *python_folders())):
        if _lies_in(folder, prefix):
            raise SandboxError(
                f"the data of {competition_id!r} lie in {prefix}, which programs can read with the Python environment",
                "Move them elsewhere (TRL_MLE_CACHE, data_dir)",
            )


def _hidden() -> set[str]:
    """Real paths of folders in every Python environment that a program can see from which it could tell labels:
    scikit-learn's data, of which the local competitions are made, and this package, which makes the mirrors."""
    patterns = [
        f"{below}{lib}/python3*/{packages}"
        for below in ("", "local/", "envs/*/", "pkgs/*/")  # Debian, conda
        for lib in ("lib", "lib64")
        for packages in ("site-packages", "dist-packages")
    ]
    path = search_path()
    found = [
        place for root in ("/usr", *python_folders()) for pattern in patterns for place in Path(root).glob(pattern)
    ]
    folders = [Path(entry) for entry in path.left_out if _is_checkout(entry)]
    for place in (*map(str, found), *path.visible):
        folders += [Path(place, "sklearn/datasets/data"), Path(place, "trl_mle")]
    return {os.path.realpath(folder) for folder in folders if folder.is_dir()}


def _views(paths: set[str]) -> list[str]:
    """Where programs would see what lies below their folders at these real paths, outermost only."""
    roots = [(root, os.path.realpath(root)) for root in ("/usr", *python_folders())]
    return _outermost(
        root + path[len(real) :] for path in paths for root, real in roots if path.startswith(f"{real}/")
    )


def _without(folder: str, hidden: set[str], kind: str) -> Iterator[tuple[str, str]]:
    """Grants for all that lies in a folder but what is hidden: Landlock can only add. Names may be listed."""
    if not any(path.startswith(folder + "/") for path in hidden):
        yield folder, kind
        return
    yield folder, "list"
    with os.scandir(folder) as entries:
        for entry in entries:  # a link's target is granted where it lies
            if entry.path not in hidden and not entry.is_symlink():
                yield from _without(entry.path, hidden, kind)


def landlock_grants(public_dir: Path, gpus: bool) -> list[tuple[str, str]]:
    """What every program of a competition may reach under Landlock; see `kernel.restrict`."""
    hidden = _hidden()
    roots = {os.path.realpath(path) for path in (*SYSTEM, *python_folders())}
    grants = [grant for root in sorted(roots) if os.path.exists(root) for grant in _without(root, hidden, "run")]
    files = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
    grants += [(path, "read") for path in (*files, "/sys/devices/system/cpu", str(public_dir))]
    devices = ["null", "zero", "full", "random", "urandom"]
    if gpus:
        devices += [path.name for path in Path("/dev").glob("nvidia*")]
    return grants + [(f"/dev/{name}", "device") for name in devices]


def _others_may_enter(path: str) -> bool:
    path = path if os.path.isdir(path) else os.path.dirname(path)
    while os.stat(path).st_mode & stat.S_IXOTH:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def landlock_capabilities(public_dir: Path) -> int:
    """The one capability, if any, that a program which root started keeps under Landlock: to walk to the Python
    environment and the data where they lie in a folder that others may not enter (root's home, say). Landlock decides
    all the same what it can read there."""
    folders = [*map(os.path.realpath, python_folders()), os.path.realpath(public_dir)]
    if os.geteuid() != 0 or all(map(_others_may_enter, folders)):
        return 0
    for number in (kernel.CAP_DAC_READ_SEARCH, kernel.CAP_DAC_OVERRIDE):  # containers often have the second alone
        if kernel.permitted_capabilities() >> number & 1:
            return 1 << number
    raise SandboxError(f"the programs' uid may not enter {' or '.join(folders)}: make them searchable (chmod o+x)")


def warm_parent_command(tier: str, control_fd: int, public_dir: Path, run_dir: Path, gpus: bool) -> list[str]:
    """
    The command line that starts the warm parent for one competition.

    Args:
        tier (`str`):
            Of [`candidate_tiers`].
        control_fd (`int`):
            Inheritable file descriptor of the warm parent's end of the control socket.
        public_dir (`Path`):
            What programs see, read-only, as `input/`.
        run_dir (`Path`):
            The executor's own folder. As root, what programs see is bound below it, in a private mount namespace: the
            sandbox's uid may not be allowed to walk to where it lies (a Python environment in root's home, say).
        gpus (`bool`):
            Whether programs see the NVIDIA devices.
    """
    if tier != "bubblewrap":
        return [sys.executable, "-P", f"{INSIDE}/__main__.py", str(control_fd)]

    folders = python_folders()
    sources = [*folders, str(public_dir), INSIDE]
    targets = [*folders, INPUT, LIBRARY]
    as_root = os.geteuid() == 0
    prefix: list[str] = []
    if as_root:
        stage = tempfile.mkdtemp(prefix="stage-", dir=run_dir)
        script = (
            'stage=$1; shift; mount -t tmpfs -o mode=755,size=1m tmpfs "$stage"; i=0; '
            'while [ "$1" != -- ]; do if [ -d "$1" ]; then mkdir "$stage/$i"; else : > "$stage/$i"; fi; '
            'mount --bind "$1" "$stage/$i"; i=$((i+1)); shift; done; shift; exec "$@"'
        )
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", stage, *sources, "--"]
        prefix += ["setpriv", f"--reuid={SANDBOX_UID}", f"--regid={SANDBOX_UID}", "--clear-groups", "--no-new-privs"]
        sources = [f"{stage}/{i}" for i in range(len(sources))]
    command = [
        str(shutil.which("bwrap")),
        "--unshare-all",
        "--unshare-user",
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--hostname",
        "sandbox",
    ]
    command += ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    for link in SYSTEM[1:]:
        if os.path.islink(link):
            command += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            command += ["--ro-bind", link, link]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        command += ["--ro-bind-try", name, name]
    for source, target in zip(sources, targets, strict=True):
        command += ["--ro-bind", source, target]
    for folder in _views(_hidden()):
        command += ["--tmpfs", folder, "--remount-ro", folder]
    command += ["--proc", "/proc", "--dev", "/dev", "--dir", WORKDIR, "--dir", SCRATCH, "--dir", "/tmp"]  # noqa: S108
    if gpus:
        for path in Path("/dev").glob("nvidia*"):
            command += ["--dev-bind", str(path), str(path)]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    return [*prefix, *command, "--", sys.executable, "-P", f"{LIBRARY}/__main__.py", str(control_fd)]
