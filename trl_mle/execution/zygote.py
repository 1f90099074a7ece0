"""The warm parent of all programs of one competition: imports the usual packages once, then forks one child per program.

This file is *executed*, never imported: `sandbox.py` starts it as pid 1 of a bubblewrap container (in the other tiers as
a plain process) and talks to it over a socket. It uses the standard library alone, and nothing that it forks ever sees
the caller's environment, files or memory. Two kinds of processes come out of it, for each program:

    zygote ──fork──▶ init: pid 1 of new user, mount, pid, ──fork──▶ the program: no capabilities, no new
                     ipc, net and uts namespaces; mounts,           privileges, seccomp, rlimits
                     timeout, memory watch, Δt,
                     submission.csv, end of all others

Without namespaces (tiers "landlock" and "none") the init is a subreaper: what a program leaves behind becomes its
child. With `start="cold"` the program's process executes a new interpreter, which goes on from here.

Protocol. Control socket (SEQPACKET), caller → zygote: one message per program, carrying the init's end of a job socket.
Job socket (STREAM), caller → init: `<uint32 length><JSON job>` with the file descriptors of stdout, stderr, the control
groups and their share of the cores, later one byte to end the program early; init → caller: a length of 0 when the
program starts, then `<uint32 length><JSON report><submission bytes>`.
"""

import array
import ast
import atexit
import contextlib
import errno
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import math
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from trl_mle.execution import kernel
else:  # no package here: in the sandbox lies this folder alone
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import kernel

    del sys.path[0]

TICK_S = 0.1  # how often the memory of a program is looked at
# Of programs: the supervisor has three times their weight. More would starve them beside other people's processes.
NICENESS = 5

# ---------------------------------------------------------------------------------------------------------------------
# The program's own process


def set_limits(job: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        inherited = int(file.read().split()[0]) * resource.getpagesize()  # mapped by the warm parent's imports
    limits = [
        (resource.RLIMIT_AS, resource.RLIM_INFINITY if job["gpus"] else inherited + (job["memory_mb"] << 20)),
        (resource.RLIMIT_FSIZE, job["disk_mb"] << 20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, job["max_files"]),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
        (resource.RLIMIT_MSGQUEUE, 0),
    ]
    if job["tier"] == "bubblewrap" or job["uid"] is not None:  # else the count covers all processes of the user
        limits.append((resource.RLIMIT_NPROC, job["max_processes"]))
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY and not 0 <= value <= hard:
            value = hard
        resource.setrlimit(kind, (value, value))


# Of a loaded package with a global generator: seed it, read its state, write it.
GENERATORS: dict[str, tuple[Callable, Callable, Callable]] = {
    "random": (
        lambda module, seed: module.seed(seed),
        lambda module: module.getstate(),
        lambda module, state: module.setstate(state),
    ),
    "numpy": (
        lambda module, seed: module.random.seed(seed),
        lambda module: module.random.get_state(),
        lambda module, state: module.random.set_state(state),
    ),
    "torch": (
        lambda module, seed: module.manual_seed(seed),
        lambda module: module.get_rng_state(),
        lambda module, state: module.set_rng_state(state),
    ),
}


class SeededImports(importlib.abc.MetaPathFinder):
    """
    Seeds the generators of packages that the program imports, and lets no import draw from those that are there: else a
    program would see other numbers where a package is imported already. The program's own modules are left alone.
    """

    def __init__(self, seed: int, workdir: str):
        self.seed = seed
        self.workdir = workdir
        self.importing = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if self.importing:  # only the outermost import matters
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None or str(spec.origin).startswith(self.workdir):
            return spec
        execute = spec.loader.exec_module

        def execute_quietly(module: Any) -> None:
            self.importing = True  # what comes below may import
            try:
                loaded = [name for name in GENERATORS if name in sys.modules and name != module.__name__]
                states = {name: GENERATORS[name][1](sys.modules[name]) for name in loaded}
                execute(module)
                for name, (seed, _, write) in GENERATORS.items():
                    if name in states:
                        write(sys.modules[name], states[name])
                    elif name in sys.modules:
                        seed(sys.modules[name], self.seed)
            finally:
                self.importing = False

        spec.loader.exec_module = execute_quietly  # type: ignore[method-assign]
        return spec


def seed_everything(seed: int, workdir: str) -> None:
    """Forked children share the parent's generator states; each program gets its own, a function of its source, whether
    a package is there already or comes later."""
    for name, (start, _, _) in GENERATORS.items():
        if name in sys.modules:
            start(sys.modules[name], seed)
    sys.meta_path.insert(0, SeededImports(seed, workdir))


def renumber(tree: Any, inserted_lines: list[int]) -> None:
    """Gives every node the line it has in the original program, so that tracebacks fit the file on disk."""
    if not inserted_lines:
        return
    shift, original = 0, [0]
    inserted = set(inserted_lines)
    nodes: list[Any] = [node for node in ast.walk(tree) if "lineno" in node._attributes]
    last = max(node.end_lineno for node in nodes)
    for line in range(1, last + 1):
        shift += line in inserted
        original.append(max(1, line - shift))
    for node in nodes:
        node.lineno, node.end_lineno = original[node.lineno], original[node.end_lineno]


def run_program(job: dict[str, Any], path: str) -> int:
    """Runs the program as `python solution.py` would, and returns the exit code."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    code = 0
    try:
        tree: Any = compile(job["source"].removeprefix("\ufeff"), path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        renumber(tree, job["inserted_lines"])
        compiled = compile(tree, path, "exec", dont_inherit=True)
        del tree
        job.clear()  # the program is still in sight, but not how it was changed and what limits it
        exec(compiled, main.__dict__)  # noqa: S102
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            code = exit_.code or 0
        else:
            print(exit_.code, file=sys.stderr)
            code = 1
    except BaseException as error:
        if error.__traceback__ is not None:  # its first frame is this function's; the program's own frames follow
            error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    with contextlib.suppress(BaseException):  # as at the end of any Python process: whatever fails now is too late
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return code & 0xFF


def execute_interpreter(job: dict[str, Any], fds: list[int], started: int) -> None:
    """The cold start: a new interpreter goes on with [`become_program`]. Never returns."""
    source = os.memfd_create("job")
    with open(source, "wb", closefd=False) as file:
        file.write(json.dumps(job).encode())
    os.lseek(source, 0, os.SEEK_SET)
    for fd in (source, started, *fds):
        os.set_inheritable(fd, True)
    numbers = json.dumps([source, started, *fds])
    os.execv(sys.executable, [sys.executable, "-P", os.path.abspath(__file__), "--program", numbers])  # noqa: S606


def become_program(job: dict[str, Any], fds: list[int], started: int) -> None:
    """Everything between fork and the program's first line. Never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.nice(NICENESS)
        null = os.open(os.devnull, os.O_RDONLY)
        for group in fds[2 : 2 + job["groups"]]:
            os.write(group, b"0")
        for target, source in enumerate((null, *fds[:2])):
            os.dup2(source, target)
        started = os.dup2(started, 3)
        os.set_inheritable(started, False)
        os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.chdir(job["workdir"])
        path = os.path.join(job["workdir"], "solution.py")
        with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(job["original"])
        if job["cpus"]:
            os.sched_setaffinity(0, job["cpus"])
        os.environ.update(job["environment"])
        open_as_stream = functools.partial(open, encoding="utf-8", errors="backslashreplace", closefd=False)
        for name, stream in (
            ("stdin", open_as_stream(0)),
            ("stdout", open_as_stream(1, "w")),
            ("stderr", open_as_stream(2, "w", buffering=1)),
        ):
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        seed_everything(job["seed"], job["workdir"])
        set_limits(job)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        kernel.write_text("/proc/self/oom_score_adj", "1000")  # if the machine runs out of memory, this goes first
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if job["tier"] == "bubblewrap":
            kernel.set_capabilities(0)
        elif job["tier"] == "landlock":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            own = [(job["workdir"], "write"), (job["tmp"], "write"), (f"/proc/{os.getpid()}", "read")]
            kernel.restrict([*job["grants"], *own])
        if job["seccomp"]:
            kernel.load_seccomp(job["seccomp"])
    except BaseException as error:
        os.write(started, f"!{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.write(started, struct.pack("=cd", b"@", time.monotonic()))
    os.close(started)
    os._exit(run_program(job, path))


# ---------------------------------------------------------------------------------------------------------------------
# The init of one program


def make_mounts(job: dict[str, Any]) -> None:
    """A fresh /proc, and one sized tmpfs behind the working folder, /tmp and /dev/shm; the data read-only in it."""
    quiet = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", quiet | kernel.MS_NOEXEC)
    kernel.write_text("/proc/sys/user/max_user_namespaces", "0")
    kernel.mount("/proc/sys", "/proc/sys", None, kernel.MS_BIND | kernel.MS_REC)
    kernel.mount(
        "none", "/proc/sys", None, kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | quiet | kernel.MS_NOEXEC
    )
    scratch = job["scratch"]
    kernel.mount("tmpfs", scratch, "tmpfs", quiet, f"size={job['disk_mb']}m,nr_inodes=100k,mode=755")
    for name in ("work", "tmp", "shm"):
        os.mkdir(f"{scratch}/{name}", 0o700)
    binds = [(job["input"], f"{scratch}/work/input")]
    # A Python environment below /tmp stays in sight.
    binds += [(folder, scratch + folder) for folder in job["python_folders"] if folder.startswith("/tmp/")]  # noqa: S108
    for source, target in binds:  # they are read-only already, and stay so
        os.makedirs(target if os.path.isdir(source) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(source):  # a zip file on sys.path
            open(target, "x").close()
        kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    for name, target in (("work", job["workdir"]), ("tmp", "/tmp"), ("shm", "/dev/shm")):  # noqa: S108
        kernel.mount(f"{scratch}/{name}", target, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.call("umount2", scratch.encode(), kernel.MNT_DETACH)


def children(pid: int) -> Iterator[int]:
    """
    All descendants of a process that /proc shows, each before its own children are looked for: one that is killed on
    sight makes no more of them.
    """
    parents = [pid]
    while parents:
        parent = parents.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    own = [int(child) for child in file.read().split()]
                yield from own
                parents += own


def processes(job: dict[str, Any]) -> list[int]:
    """All processes of the program."""
    own = os.getpid()
    if job["tier"] != "bubblewrap":
        return list(children(own))
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def signal_all(job: dict[str, Any]) -> None:
    """Kills every process of the program."""
    for fd in job.pop("weight", ()):  # dying is work, too, and the others wait for it
        with contextlib.suppress(OSError):
            os.write(fd, job["highest_weight"].encode())
    # Nothing else is in reach of this process' signals, and -1 is everything but itself, in one step.
    for pid in children(os.getpid()) if job["tier"] == "none" else [-1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all(job: dict[str, Any]) -> None:
    """Kills every process of the program, and reaps it."""
    while True:
        signal_all(job)
        try:
            while os.waitpid(-1, 0 if job["tier"] == "bubblewrap" else os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process. That of one whose first thread has ended is known to its other threads alone."""
    with contextlib.suppress(OSError):
        for task in (pid, *map(int, os.listdir(f"/proc/{pid}/task"))):
            with open(f"/proc/{pid}/task/{task}/statm") as file:
                if pages := int(file.read().split()[1]):
                    return pages * resource.getpagesize()
    return 0


def proportional_bytes(pid: int) -> int:
    """Resident memory of a process, of pages that it shares with others its share."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith("Pss:")), 0)
    except OSError:  # it made itself undumpable, or its first thread has ended: then its shared pages count whole
        return resident_bytes(pid)


def memory_bytes(pids: list[int], limit: int) -> int:
    """Memory of all these processes. The cheap sum counts shared pages once per process; only when it exceeds the limit
    is the exact one asked for."""
    total = sum(map(resident_bytes, pids))
    if len(pids) > 1 and total > limit:
        total = sum(map(proportional_bytes, pids))
    return total


def entries(folder: int) -> Iterator[os.stat_result]:
    """All that lies below an open folder. No link is followed, whatever is swapped for what meanwhile."""
    with os.scandir(folder) as found:
        for entry in found:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it went, or became another thing
                info = entry.stat(follow_symlinks=False)
                yield info
                if stat.S_ISDIR(info.st_mode):
                    below = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                    try:
                        yield from entries(below)
                    finally:
                        os.close(below)


def disk_bytes(folders: list[int], pids: list[int], limit: int) -> float:
    """
    What the files below open folders take, and those that these processes hold open without a name, in bytes, each entry
    counted as one page at least. Counts no further than to a limit. Infinite if a folder cannot be looked into, or is
    nested too deep.
    """
    total = 0
    try:
        for folder in folders:
            for info in entries(folder):
                total += max(info.st_blocks * 512, resource.getpagesize())
                if total > limit:  # files may come faster than they are counted
                    return total
    except RecursionError:
        return math.inf
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EMFILE):
            return math.inf
        raise
    unnamed: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended meanwhile
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    info = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(info.st_mode) and info.st_nlink == 0:
                        unnamed[info.st_dev, info.st_ino] = info.st_blocks * 512
    return total + sum(unnamed.values())


def threads(pids: list[int]) -> int:
    """How many threads these processes have."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{pid}/task"))
    return total


def exceeded(job: dict[str, Any]) -> str | None:
    """Which limit the program exceeds, of those that the kernel does not keep by itself."""
    pids = processes(job)
    if memory_bytes(pids, job["memory_mb"] << 20) > job["memory_mb"] << 20:
        return "memory"
    if job["tier"] != "bubblewrap":
        if threads(pids) > job["max_processes"]:
            return "processes"
        if disk_bytes(job["folders"], pids, job["disk_mb"] << 20) > job["disk_mb"] << 20:
            return "disk"
    return None


def watch(job: dict[str, Any], found: int) -> None:
    """
    Looks at the program until it exceeds a limit, and writes which one, or what went wrong. On a thread of its own: who
    reads of a process' memory waits while it forks, and a fork bomb's processes do nothing else.
    """
    try:
        while True:
            time.sleep(TICK_S)
            if (reason := exceeded(job)) is not None:
                break
    except BaseException as error:  # without a watch nothing may go on
        reason = f"!{type(error).__name__}: {error}"
    os.write(found, reason.encode())


def oom_kills() -> int:
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def read_submission(job: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """The bytes of submission.csv, or why they were not taken. No link is followed; only a regular file is read."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open("submission.csv", flags, dir_fd=job["folders"][0])
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"submission.csv could not be opened: {error.strerror}"
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        os.close(fd)
        return None, "submission.csv is not a regular file"
    with open(fd, "rb") as file:
        limit = job["submission_mb"] << 20
        content = file.read(limit + 1)
        if len(content) > limit:
            return None, f"submission.csv is larger than {job['submission_mb']} MB"
        return content, None


def supervise(pid: int, started: int, job: dict[str, Any], job_socket: socket.socket) -> dict[str, Any]:
    """Waits for the end of the program, or makes it; returns the report."""
    pidfd = os.pidfd_open(pid)
    begin = b""
    while chunk := os.read(started, 4096):  # ends when the program starts: it closes its copy then
        begin += chunk
    os.close(started)
    if not begin.startswith(b"@"):
        kill_all(job)
        return {
            "error": begin.removeprefix(b"!").decode(errors="replace") or "the program's process died at its start"
        }
    t0 = struct.unpack("=cd", begin)[1]
    job_socket.sendall(struct.pack("=I", 0))
    seen, found = os.pipe()
    threading.Thread(target=watch, args=(job, found), daemon=True).start()
    poll = select.poll()
    for fd in (pidfd, job_socket.fileno(), seen):
        poll.register(fd, select.POLLIN)
    left = t0 + job["timeout_s"] - time.monotonic()
    events = dict(poll.poll(max(0.0, left) * 1000))
    t1 = time.monotonic()
    if pidfd in events:
        reason = "exit"
    elif job_socket.fileno() in events:
        if not job_socket.recv(1):
            kill_all(job)
            os._exit(1)  # the caller is gone: so is everything in here
        reason = "stopped"
    elif seen in events:
        reason = os.read(seen, 4096).decode()
    else:
        reason = "timeout"
    if reason != "exit":
        signal_all(job)  # first of all: the program's process is slow to die among those that it has forked
    _, status, usage = os.wait4(pid, 0)
    kill_all(job)
    if reason.startswith("!"):
        return {"error": reason.removeprefix("!")}
    everyone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "reason": reason,
        "exit_code": os.waitstatus_to_exitcode(status),
        "duration_s": t1 - t0,
        "cpu_s": everyone.ru_utime + everyone.ru_stime,
        "max_rss_mb": usage.ru_maxrss / 1024,
        "oom_kills": oom_kills() - job["oom_kills"],
    }


def receive_job(job_socket: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, ancillary, _, _ = job_socket.recvmsg(4, socket.CMSG_SPACE(64))
    fds = array.array("i")
    for _, _, data in ancillary:
        fds.frombytes(data)
    length = struct.unpack("=I", header)[0]
    payload = bytearray()
    while len(payload) < length:
        chunk = job_socket.recv(min(1 << 20, length - len(payload)))
        if not chunk:
            os._exit(1)
        payload += chunk
    return json.loads(payload.decode("utf-8", errors="surrogatepass")), list(fds)


def send_report(job_socket: socket.socket, report: dict[str, Any], submission: bytes | None = None) -> None:
    report["submission_bytes"] = len(submission) if submission is not None else None
    payload = json.dumps(report).encode()
    with contextlib.suppress(BrokenPipeError):
        job_socket.sendall(struct.pack("=I", len(payload)) + payload + (submission or b""))


def init(job_socket: socket.socket, fixed: dict[str, Any]) -> None:
    """Pid 1 of the program's namespaces, or a subreaper. Never returns."""
    submission: bytes | None = None
    pid = 0
    try:
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        job, fds = receive_job(job_socket)
        job |= fixed
        if job["tier"] == "bubblewrap":
            kernel.map_user(*job["ids"])
            make_mounts(job)
        else:
            if job["uid"] is not None:
                kernel.become_user(job["uid"], job["keep_capabilities"])
            elif job["tier"] == "landlock":
                kernel.set_capabilities(0)
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            if job["tier"] == "landlock":
                kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
                kernel.scope_signals()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        job["oom_kills"] = oom_kills()
        # As they are now, whatever the program puts in their place.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        job["folders"] = [os.open(job[name], flags) for name in ("workdir", "tmp")]
        started, started_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            (become_program if job["start"] == "warm" else execute_interpreter)(job, fds, started_write)
        os.close(started_write)
        job["weight"] = fds[2 + job["groups"] :]
        for fd in fds[: 2 + job["groups"]]:
            os.close(fd)
        report = supervise(pid, started, job, job_socket)
        if "error" not in report:
            submission, report["submission_error"] = read_submission(job)
    except BaseException as error:  # whatever it is, nothing may go on without this process
        if pid:  # before, this process' signals may reach everything
            kill_all(fixed)
        report = {"error": f"{type(error).__name__}: {error}"}
    send_report(job_socket, report, submission)
    os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# The warm parent


def serve(control: socket.socket, fixed: dict[str, Any], packages: list[str]) -> None:
    for name in packages:
        with contextlib.suppress(ImportError):  # programs may use what is installed, and are told what is not
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no init needs reaping
    if os.fork() == 0:  # ends the threads that a numeric library may have started: they have handlers for a fork
        os._exit(0)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("the packages imported at start leave threads running, which a fork cannot take along: name others")
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page in every child
    kernel.collapse_memory()
    fixed["ids"] = os.getuid(), os.getgid()
    control.send(b"ready")
    while True:
        message, fds, _, _ = socket.recv_fds(control, 16, 1)
        if not message:
            os._exit(0)  # the caller closed its end or died; as pid 1, this process takes all programs with it
        with socket.socket(fileno=fds[0]) as job_socket:
            try:
                if (kernel.fork_into_namespaces() if fixed["tier"] == "bubblewrap" else os.fork()) == 0:
                    control.close()
                    init(job_socket, fixed)
            except OSError as error:
                send_report(job_socket, {"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__" and sys.argv[1] == "--program":
    source, started_, *fds_ = json.loads(sys.argv[2])
    with open(source, encoding="utf-8", errors="surrogatepass") as job_file:
        become_program(json.load(job_file), fds_, started_)
elif __name__ == "__main__":
    settings = json.load(sys.stdin)
    serve(socket.socket(fileno=int(sys.argv[1])), settings["fixed"], settings["packages"])
