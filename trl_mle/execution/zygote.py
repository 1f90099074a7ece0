"""The warm parent of all programs of one competition: imports the usual packages once, then forks one child per program.

This file is *executed*, never imported: `sandbox.py` starts it as pid 1 of a bubblewrap container (or, with
`sandbox="none"`, as a plain process) and talks to it over a socket. It uses the standard library alone, and nothing that
it forks ever sees the caller's environment, files or memory. Three kinds of processes come out of it, for each program:

    zygote ──fork──▶ keeper ──unshare, fork──▶ init (pid 1 of a new pid namespace) ──fork──▶ the program
                     new user, mount, pid,     mounts, timeout, memory watch,               no capabilities, no new
                     ipc, net, uts namespaces  Δt, submission.csv, end of all others        privileges, seccomp, rlimits

Protocol. Control socket (SEQPACKET), caller → zygote: one message per program, carrying the init's end of a job socket.
Job socket (STREAM), caller → init: `<uint32 length><JSON job>` with the file descriptors of stdout and stderr, later one
byte to end the program early; init → caller: `<uint32 length><JSON report><submission bytes>`.
"""

import array
import ast
import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import random
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
from typing import Any


# Constants of <sched.h>, <sys/mount.h>, <sys/prctl.h>: Python 3.11 has none of them.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522

TICK_S = 0.1  # how often the memory of a program is looked at

libc = ctypes.CDLL(None, use_errno=True)


def syscall(name: str, *args: Any) -> None:
    """Calls a libc function that returns 0 on success; raises `OSError` otherwise."""
    if getattr(libc, name)(*args) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{name}: {os.strerror(errno)}")


def prctl(option: int, value: int) -> None:
    syscall("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def mount(source: str, target: str, fstype: str | None, flags: int, data: str | None = None) -> None:
    encoded = [value.encode() if value is not None else None for value in (source, target, fstype)]
    syscall("mount", *encoded, ctypes.c_ulong(flags), data.encode() if data is not None else None)


def write_text(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


# ---------------------------------------------------------------------------------------------------------------------
# The program's own process


def drop_capabilities() -> None:
    header = struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0)
    syscall("capset", header, struct.pack("=6I", *[0] * 6))


def load_seccomp(filter_hex: str) -> None:
    """Installs the BPF program that the caller compiled with libseccomp."""
    instructions = bytes.fromhex(filter_hex)
    buffer = ctypes.create_string_buffer(instructions)
    program = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    syscall(
        "prctl", PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program, ctypes.c_ulong(0), ctypes.c_ulong(0)
    )


def set_limits(job: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        inherited = int(file.read().split()[0]) * resource.getpagesize()  # mapped by the warm parent's imports
    limits = [
        (resource.RLIMIT_AS, inherited + (job["memory_mb"] << 20)),
        (resource.RLIMIT_FSIZE, job["disk_mb"] << 20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
        (resource.RLIMIT_MSGQUEUE, 0),
    ]
    if job["namespaces"]:  # elsewhere the count covers every process of the user, not only this program's
        limits.append((resource.RLIMIT_NPROC, job["max_processes"]))
    for kind, value in limits:
        resource.setrlimit(kind, (value, value))


def seed_everything(seed: int) -> None:
    """Forked children share the parent's generator states; each program gets its own, a function of its source."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


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
        job.clear()  # the frames below would show the program the markers that it is to print
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


def become_program(job: dict[str, Any], fds: list[int], started: int) -> None:
    """Everything between fork and the program's first line. Never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *fds)):
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
        open_as_stream = functools.partial(open, encoding="utf-8", errors="backslashreplace", closefd=False)
        for name, stream in (
            ("stdin", open_as_stream(0)),
            ("stdout", open_as_stream(1, "w")),
            ("stderr", open_as_stream(2, "w", buffering=1)),
        ):
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        seed_everything(job["seed"])
        set_limits(job)
        prctl(PR_SET_DUMPABLE, 1)
        write_text("/proc/self/oom_score_adj", "1000")  # if the machine runs out of memory, this goes first
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if job["namespaces"]:
            drop_capabilities()
            load_seccomp(job["seccomp"])
    except BaseException as error:
        os.write(started, f"!{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.write(started, struct.pack("=cd", b"@", time.monotonic()))
    os.close(started)
    os._exit(run_program(job, path))


# ---------------------------------------------------------------------------------------------------------------------
# The init of one program


def make_namespaces(uid: int, gid: int) -> None:
    """New user, mount, pid, ipc, network and uts namespaces for what this process forks next."""
    prctl(PR_SET_DUMPABLE, 1)  # the files of an undumpable process under /proc belong to root, uid_map among them
    syscall("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS)
    write_text("/proc/self/setgroups", "deny")
    write_text("/proc/self/uid_map", f"{uid} {uid} 1")
    write_text("/proc/self/gid_map", f"{gid} {gid} 1")


def make_mounts(job: dict[str, Any]) -> None:
    """A fresh /proc, and one sized tmpfs behind the working folder, /tmp and /dev/shm; the data read-only in it."""
    quiet = MS_NOSUID | MS_NODEV
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", quiet | MS_NOEXEC)
    write_text("/proc/sys/user/max_user_namespaces", "0")
    mount("/proc/sys", "/proc/sys", None, MS_BIND | MS_REC)
    mount("none", "/proc/sys", None, MS_BIND | MS_REMOUNT | MS_RDONLY | quiet | MS_NOEXEC)
    scratch = job["scratch"]
    mount("tmpfs", scratch, "tmpfs", quiet, f"size={job['disk_mb']}m,nr_inodes=100k,mode=755")
    for name in ("work", "tmp", "shm"):
        os.mkdir(f"{scratch}/{name}", 0o700)
    binds = [(job["input"], f"{scratch}/work/input")]
    # A Python environment below /tmp stays in sight.
    binds += [(folder, scratch + folder) for folder in job["python_folders"] if folder.startswith("/tmp/")]  # noqa: S108
    for source, target in binds:  # they are read-only already, and stay so
        os.makedirs(target)
        mount(source, target, None, MS_BIND | MS_REC)
    for name, target in (("work", job["workdir"]), ("tmp", "/tmp"), ("shm", "/dev/shm")):  # noqa: S108
        mount(f"{scratch}/{name}", target, None, MS_BIND | MS_REC)
    syscall("umount2", scratch.encode(), MNT_DETACH)


def children(pid: int) -> list[int]:
    """All descendants of a process, as far as /proc tells."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *children(child)]
    return found


def kill_all(namespaces: bool) -> None:
    """Ends every process of the program, and reaps it."""
    while True:
        if namespaces:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # from pid 1: everything in the namespace but itself
        else:
            for pid in children(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, 0 if namespaces else os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def memory_bytes(namespaces: bool) -> int:
    """Memory of all processes of the program. The cheap sum counts shared pages once per process; only when it is large
    is the exact one (proportional set size) asked for."""
    own = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if namespaces else children(own)
    pids = [pid for pid in pids if pid != own]
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as file:
            total += int(file.read().split()[1]) * resource.getpagesize()
    if len(pids) < 2 or total < 1 << 30:
        return total
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
        except PermissionError:  # it made itself undumpable: then its shared pages count too
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * resource.getpagesize()
        except OSError:
            continue  # it ended meanwhile
    return total


def oom_kills() -> int:
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def read_submission(job: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """The bytes of submission.csv, or why they were not taken. No link is followed; only a regular file is read."""
    try:
        fd = os.open(
            os.path.join(job["workdir"], "submission.csv"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
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
        kill_all(job["namespaces"])
        return {
            "error": begin.removeprefix(b"!").decode(errors="replace") or "the program's process died at its start"
        }
    t0 = struct.unpack("=cd", begin)[1]
    reason = "exit"
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(job_socket, select.POLLIN)
    while reason == "exit":
        left = t0 + job["timeout_s"] - time.monotonic()
        events = dict(poll.poll(max(0.0, min(left, TICK_S)) * 1000))
        if pidfd in events:
            break
        if job_socket.fileno() in events:
            if not job_socket.recv(1):
                kill_all(job["namespaces"])
                os._exit(1)  # the caller is gone: so is everything in here
            reason = "stopped"
        elif left <= 0:
            reason = "timeout"
        elif memory_bytes(job["namespaces"]) > job["memory_mb"] << 20:
            reason = "memory"
    t1 = time.monotonic()
    oom_before = job["oom_kills"]
    if reason != "exit":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    kill_all(job["namespaces"])
    everyone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "reason": reason,
        "exit_code": os.waitstatus_to_exitcode(status),
        "duration_s": t1 - t0,
        "cpu_s": everyone.ru_utime + everyone.ru_stime,
        "max_rss_mb": usage.ru_maxrss / 1024,
        "oom_kills": oom_kills() - oom_before,
    }


def init(job: dict[str, Any], fds: list[int], job_socket: socket.socket) -> None:
    """Pid 1 of the program's namespaces (a subreaper without them). Never returns."""
    submission: bytes | None = None
    try:
        prctl(PR_SET_DUMPABLE, 0)
        if job["namespaces"]:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            make_mounts(job)
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        job["oom_kills"] = oom_kills()
        started, started_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            become_program(job, fds, started_write)
        os.close(started_write)
        for fd in fds:
            os.close(fd)
        report = supervise(pid, started, job, job_socket)
        if "error" not in report:
            submission, report["submission_error"] = read_submission(job)
    except OSError as error:
        report = {"error": f"{type(error).__name__}: {error}"}
    report["submission_bytes"] = len(submission) if submission is not None else None
    payload = json.dumps(report).encode()
    with contextlib.suppress(BrokenPipeError):
        job_socket.sendall(struct.pack("=I", len(payload)) + payload + (submission or b""))
    os._exit(0)


def receive_job(job_socket: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, ancillary, _, _ = job_socket.recvmsg(4, socket.CMSG_SPACE(8))
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


def keeper(job_socket: socket.socket, fixed: dict[str, Any]) -> None:
    """Makes the namespaces of one program, and stays until its init has ended. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        job, fds = receive_job(job_socket)
        job |= fixed
        if job["namespaces"]:
            make_namespaces(os.getuid(), os.getgid())
            pid = os.fork()
        else:
            pid = 0
    except OSError as error:
        payload = json.dumps({"error": f"{type(error).__name__}: {error}", "submission_bytes": None}).encode()
        with contextlib.suppress(BrokenPipeError):
            job_socket.sendall(struct.pack("=I", len(payload)) + payload)
        os._exit(1)
    if pid == 0:
        init(job, fds, job_socket)
    job_socket.close()
    for fd in fds:
        os.close(fd)
    os.waitpid(pid, 0)
    os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# The warm parent


def serve(control: socket.socket, fixed: dict[str, Any], packages: list[str]) -> None:
    for name in packages:
        with contextlib.suppress(ImportError):  # programs may use what is installed, and are told what is not
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers need no reaping
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page in every child
    control.send(b"ready")
    while True:
        message, fds, _, _ = socket.recv_fds(control, 16, 1)
        if not message:
            os._exit(0)  # the caller closed its end or died; as pid 1, this process takes all programs with it
        if os.fork() == 0:
            control.close()
            keeper(socket.socket(fileno=fds[0]), fixed)
        os.close(fds[0])


if __name__ == "__main__":
    settings = json.loads(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])), settings["fixed"], settings["packages"])
