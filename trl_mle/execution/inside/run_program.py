"""The process of one program: from the fork to its last line."""

import ast
import atexit
import builtins
import contextlib
import gc
import io
import os
import random
import resource
import signal
import struct
import sys
import threading
import time
import types
from typing import Any

from . import kernel


# The supervisor has three times a program's weight. A higher niceness would starve programs beside others' processes.
NICENESS = 5
# Pending signals and timers. Without a namespace or a uid of its own, a program shares this limit.
QUEUED_SIGNALS = 1024


def set_limits(job: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        inherited = int(file.read().split()[0]) * resource.getpagesize()  # mapped by the warm parent's imports
    limits = [
        (resource.RLIMIT_AS, resource.RLIM_INFINITY if job["gpus"] else inherited + (job["memory_mb"] << 20)),
        (resource.RLIMIT_FSIZE, job["disk_mb"] << 20),
        (resource.RLIMIT_CORE, 1),  # with 0, the handler of core dumps would still run (core(5))
        (resource.RLIMIT_NOFILE, job["max_files"]),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, QUEUED_SIGNALS),
    ]
    if job["namespaces"] or job["uid"] is not None:  # otherwise all processes of the user count
        limits.append((resource.RLIMIT_NPROC, job["max_processes"]))
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY and not 0 <= value <= hard:
            value = hard
        resource.setrlimit(kind, (value, value))


def shield(tree: Any, inserted_lines: list[int]) -> None:
    """Lets the program go on where a milestone print fails: it may have closed its output after its own last print."""
    inserted = set(inserted_lines)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block: Any = getattr(node, name, None)
            for index, statement in enumerate(block) if isinstance(block, list) else ():
                if isinstance(statement, ast.Expr) and statement.lineno in inserted:
                    ignored = ast.ExceptHandler(type=None, name=None, body=[ast.Pass()])
                    block[index] = ast.Try(body=[statement], handlers=[ignored], orelse=[], finalbody=[])
                    ast.fix_missing_locations(ast.copy_location(block[index], statement))


def renumber(tree: Any, inserted_lines: list[int]) -> None:
    """Gives every node the line it has in the original program, so that tracebacks fit the file on disk."""
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
    main.__dict__.update(__file__=path, __builtins__=builtins)  # the module, which only `__main__` has there
    sys.modules["__main__"] = main
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    code = 0
    try:
        program: Any = job["source"].removeprefix("\ufeff")
        if job["inserted_lines"]:  # a syntax tree may not be as deep as a text
            program = compile(program, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
            shield(program, job["inserted_lines"])
            renumber(program, job["inserted_lines"])
        compiled = compile(program, path, "exec", dont_inherit=True)
        del program
        job.clear()  # the program must not see its prints and limits
        exec(compiled, main.__dict__)  # noqa: S102
    except SystemExit as exit_:
        code = exit_code(exit_)
    except BaseException as error:
        if error.__traceback__ is not None:  # the first frame is this function's
            error = error.with_traceback(error.__traceback__.tb_next)
        code = report(error)
    # As at the end of any Python process, failures are ignored. Streams are looked up last: handlers of the program's
    # may change them
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    flush_files()
    for name in "stdout", "stderr":
        with contextlib.suppress(BaseException):
            getattr(sys, name).flush()
    return code


def exit_code(exit_: SystemExit) -> int:
    """The exit code of a process that ends with this exception, whose message is printed if it has one."""
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        number = int.__index__(exit_.code)
        return number & 0xFF if abs(number) < 2**63 else 0xFF
    with contextlib.suppress(BaseException):  # the program may have closed the stream
        print(exit_.code, file=sys.stderr)
    return 1


def report(error: BaseException) -> int:
    """Prints a program's last error, by its own hook, and returns the exit code."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as exit_:
        return exit_code(exit_)
    except BaseException:  # its hook failed
        with contextlib.suppress(BaseException):  # the program may have closed the stream
            sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def flush_files() -> None:
    """Writes what the program's open files still hold: Python closes them at its end, which `os._exit` skips."""
    opened = gc.get_objects()
    for kind in io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom:  # the former hold the latter
        for file in (one for one in opened if issubclass(type(one), kind)):
            with contextlib.suppress(BaseException):
                file.flush()


def own_grants(pid: int, gpus: bool) -> list[tuple[str, str]]:
    """Landlock's grants for a process's folder in /proc, except for the machine's network (`net`, also in `task`) and
    links, which lead elsewhere. Programs that use GPUs also read and write in `task`, see `goes_first`."""
    folder = f"/proc/{pid}"
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.is_symlink() and entry.name not in ("net", "task")]
    task = [(f"{folder}/task", "update")] if gpus else []
    return [(folder, "list"), *task, *((f"{folder}/{name}", "read") for name in names)]


def goes_first(has_namespaces: bool, gpus: bool) -> None:
    """Makes the kernel kill the program first if the machine runs out of memory. A read-only /proc keeps it that way,
    except for programs that use GPUs: CUDA names its threads in `task` or does not start (error 304, see
    https://github.com/nolabs-ai/nono/pull/673), and their files there include this one."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise its files in /proc are root's
    kernel.write_text("/proc/self/oom_score_adj", "1000")
    if has_namespaces:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        if gpus:  # a mount of its own stays writable
            kernel.mount("/proc/self/task", "/proc/self/task", None, kernel.MS_BIND)
        kernel.mount("none", "/proc", None, kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | flags)


def become_program(job: dict[str, Any], fds: list[int], started: int) -> None:
    """Everything between fork and the program's first line. Never returns."""
    try:
        if job["uid"] is not None:
            os.setresuid(job["uid"], job["uid"], job["uid"])
        goes_first(job["namespaces"], job["gpus"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does
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
        for fd, name in enumerate(("stdin", "stdout", "stderr")):
            mode, buffering = "w" if fd else "r", 1 if name == "stderr" else -1
            stream = open(fd, mode, buffering, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        # Generator states that depend on the source alone: forked children share their parent's
        random.seed(job["seed"])
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(job["seed"])
        set_limits(job)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if job["namespaces"]:
            kernel.set_capabilities(0)
        if job["landlock_abi"]:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            own = [
                (job["input"], "read"),
                (job["workdir"], "write"),
                (job["tmp"], "write"),
                *own_grants(os.getpid(), job["gpus"]),
            ]
            kernel.restrict([*job["grants"], *own], job["landlock_abi"])
        if job["seccomp"]:
            kernel.load_seccomp(job["seccomp"])
    except BaseException as error:
        os.write(started, f"!{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.write(started, struct.pack("=cd", b"@", time.monotonic()))
    os.close(started)
    code, end = 1, os._exit  # which the program may replace
    try:
        code = run_program(job, path)
    finally:  # whatever a program does, the code of its parents is not its to run
        end(code)
