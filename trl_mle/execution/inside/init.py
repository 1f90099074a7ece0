"""The init of one program: makes its namespaces' mounts, monitors, times and ends it, and reports."""

import array
import contextlib
import errno
import json
import math
import os
import random
import resource
import select
import signal
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import kernel
from .run_program import become_program, own_grants
from .submission import read_submission


TICK_S = 0.1  # time between two checks of a program's memory
LOOKS_AT_MAPS = 10  # every tenth check also reads the mappings and locks, which are long
LOOKS_OVER = 3  # a group is over its memory after three in a row: the kernel's counters may lag behind its files
# The kernel's memory for a mapping and for a file that an epoll waits for, at most
MAPPING_BYTES, EVENT_BYTES = 256, 256
SAMPLED = 8  # lists of mappings or events that a check reads: all of them may take too long
PF_EXITING = 0x4  # <linux/sched.h>


def make_mounts(job: dict[str, Any]) -> None:
    """A fresh /proc, and one sized tmpfs behind the working folder, /tmp and /dev/shm; the data read-only in it."""
    quiet = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", quiet | kernel.MS_NOEXEC)
    # Its own terminals: otherwise the programs of a competition would share them
    kernel.mount(
        "devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    kernel.write_text("/proc/sys/user/max_user_namespaces", "0")
    scratch = job["scratch"]
    kernel.mount("tmpfs", scratch, "tmpfs", quiet, f"size={job['disk_mb']}m,nr_inodes=100k,mode=755")
    for name in ("work", "tmp", "shm"):
        os.mkdir(f"{scratch}/{name}", 0o700)
    binds = [(job["input"], f"{scratch}/work/input")]
    # A Python environment below /tmp stays visible
    binds += [(folder, scratch + folder) for folder in job["python_folders"] if folder.startswith("/tmp/")]  # noqa: S108
    for source, target in binds:  # they are and stay read-only
        os.makedirs(target if os.path.isdir(source) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(source):  # a zip file on sys.path
            open(target, "x").close()
        kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.mount(f"{scratch}/work/input", job["inputs"], None, kernel.MS_BIND | kernel.MS_REC)  # covers all others
    for name, target in (("work", job["workdir"]), ("tmp", "/tmp"), ("shm", "/dev/shm")):  # noqa: S108
        kernel.mount(f"{scratch}/{name}", target, None, kernel.MS_BIND | kernel.MS_REC)
    # /dev/zero, mapped, would be anonymous shared memory, which no process shows
    os.close(os.open(f"{scratch}/zero", os.O_CREAT | os.O_EXCL, 0))
    kernel.mount(f"{scratch}/zero", "/dev/zero", None, kernel.MS_BIND)
    kernel.call("umount2", scratch.encode(), kernel.MNT_DETACH)


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


def children(pid: int) -> Iterator[int]:
    """All descendants of a process in /proc, each before its own children, so that one killed at once forks no more."""
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
    if not job["namespaces"]:
        return list(children(own))
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def signal_all(job: dict[str, Any]) -> None:
    """Kills every process of the program."""
    for fd in job.pop("weight", ()):  # dying takes CPU time, too, and others wait for it
        with contextlib.suppress(OSError):
            os.write(fd, job["highest_weight"].encode())
    # -1 is everything that this process' signals reach, except itself, in one step.
    for pid in [-1] if job["confines_signals"] else children(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all(job: dict[str, Any]) -> None:
    """Kills every process of the program, and reaps it."""
    while True:
        signal_all(job)
        try:
            while os.waitpid(-1, 0 if job["namespaces"] else os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def resident_bytes(pid: int) -> int:
    """Resident memory, swapped-out memory and page tables of a process. If its first thread has ended, others know them."""
    with contextlib.suppress(OSError):
        for task in (pid, *map(int, os.listdir(f"/proc/{pid}/task"))):
            if size := listed_bytes(f"/proc/{pid}/task/{task}/status", ("VmRSS:", "VmSwap:", "VmPTE:")):
                return size
    return 0


def listed_bytes(path: str, names: tuple[str, ...]) -> int:
    """The sum of these lines of a file in /proc, in bytes; the file is in KB."""
    with open(path, "rb") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(tuple(map(str.encode, names)))) << 10


def proportional_bytes(pid: int) -> int:
    """Memory of a process, with its share of shared pages."""
    try:
        shared = listed_bytes(f"/proc/{pid}/smaps_rollup", ("Pss:", "SwapPss:"))
        return shared + listed_bytes(f"/proc/{pid}/status", ("VmPTE:",))
    except OSError:  # undumpable, or its first thread has ended: shared pages count in full
        return resident_bytes(pid)


def memory_bytes(pids: list[int], limit: int) -> int:
    """Memory of these processes. Only if the cheap sum, which counts shared pages several times, exceeds the limit, the
    exact one is read."""
    total = sum(map(resident_bytes, pids))
    if len(pids) > 1 and total > limit:
        total = sum(map(proportional_bytes, pids))
    return total


def entries(folder: int) -> Iterator[os.stat_result]:
    """Everything below an open folder. Follows no link, even if entries are replaced meanwhile."""
    with os.scandir(folder) as found:
        for entry in found:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it was removed or replaced
                info = entry.stat(follow_symlinks=False)
                yield info
                if stat.S_ISDIR(info.st_mode):
                    below = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                    try:
                        yield from entries(below)
                    finally:
                        os.close(below)


def disk_bytes(folders: list[int], pids: list[int], limit: int, mapped: set[int]) -> float:
    """Bytes of the files below open folders and of deleted files that these processes hold open; each entry counts as
    one page at least. Stops counting at the limit. Infinite if a folder or a process cannot be read, if folders are
    nested too deeply, or if a deleted file is mapped (`mapped` holds inodes) but not open, because its size is
    unknown."""
    total = 0
    try:
        for folder in folders:
            for info in entries(folder):
                total += max(info.st_blocks * 512, resource.getpagesize())
                if total > limit:  # the program may create files faster than this counts
                    return total
    except RecursionError:
        return math.inf
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EMFILE):
            return math.inf
        raise
    unnamed: dict[tuple[int, int], int] = {}
    for path in descriptors(pids):
        try:
            info = os.stat(path)
            if stat.S_ISREG(info.st_mode) and info.st_nlink == 0:
                unnamed[info.st_dev, info.st_ino] = info.st_blocks * 512
        except PermissionError:
            if is_hidden(path):
                return math.inf
        except OSError:  # it was closed meanwhile
            pass
    if mapped - {inode for _, inode in unnamed}:
        return math.inf
    return total + sum(unnamed.values())


def descriptors(pids: list[int]) -> Iterator[str]:
    """Paths of the descriptors of these processes, by thread, because a thread may have its own. A thread that cannot
    be read yields its first one."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            for task in os.listdir(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{task}"
                try:
                    names = os.listdir(f"{folder}/fd")
                except PermissionError:
                    names = ["0"]
                yield from [f"{folder}/fd/{name}" for name in names]


def is_hidden(path: str) -> bool:
    """Whether the thread of a descriptor has made itself undumpable, so that it cannot be read. An ending thread looks the
    same, and does not count."""
    with contextlib.suppress(OSError):
        with open(f"{path.rpartition('/fd/')[0]}/stat", errors="surrogateescape") as file:
            state, *fields = file.read().rpartition(") ")[2].split()
        return state not in "ZX" and not int(fields[5]) & PF_EXITING
    return False


def held_bytes(job: dict[str, Any], pids: list[int]) -> float:
    """Upper bound of the kernel's memory that no process shows: full sockets, events of epolls, and mappings; the last
    two are estimates. Infinite if a process cannot be read."""
    limit = job["memory_mb"] << 20
    sockets: set[str] = set()
    epolls: list[str] = []
    total = MAPPING_BYTES * lines([f"/proc/{pid}/maps" for pid in pids], b"")
    if job["namespaces"]:  # also shows sockets that are not accepted yet or in flight
        with open("/proc/net/unix", errors="surrogateescape") as file:
            total += job["socket_bytes"] * (sum(1 for _ in file) - 1)
    for path in descriptors(pids):
        try:
            target = os.readlink(path)
        except PermissionError:
            if is_hidden(path):
                return math.inf
            continue
        except OSError:  # it was closed meanwhile
            continue
        if target == "anon_inode:[eventpoll]":
            epolls.append(path.replace("/fd/", "/fdinfo/"))
        elif target.startswith("socket:") and not job["namespaces"] and target not in sockets:
            sockets.add(target)
            total += job["socket_bytes"]
        if total > limit:
            return total
    return total + EVENT_BYTES * lines(epolls, b"tfd:")


def lines(paths: list[str], begin: bytes) -> int:
    """Estimated number of lines in these files that begin like this, from an unpredictable sample of the files."""
    sample = random.SystemRandom().sample(paths, min(SAMPLED, len(paths)))
    found = 0
    for path in sample:
        with contextlib.suppress(OSError), open(path, "rb") as file:  # its process ended meanwhile
            found += sum(line.startswith(begin) for line in file)
    return found * len(paths) // max(1, len(sample))


def locks(pids: list[int], limit: int) -> int:
    """Number of locks on parts of files that these processes hold. Stops counting at the limit."""
    own, found = set(map(str, pids)), 0
    with open("/proc/locks") as file:
        for line in file:
            # Number, kind, ADVISORY, READ or WRITE, process; a waiting one has an arrow before the kind
            fields = line.split()
            found += "POSIX" in fields[1:3] and not own.isdisjoint(fields[4:6])
            if found > limit:
                break
    return found


def group_bytes(job: dict[str, Any]) -> int:
    """Memory of the program's control group, without its files and what the kernel could reclaim."""
    lines = os.pread(job["memory_stat"], 1 << 16, 0).decode().splitlines()
    counters = {name: int(value) for name, value in map(str.split, lines)}
    anonymous = counters["anon"] if "anon" in counters else counters["rss"]  # cgroup v2, v1
    files = os.statvfs(job["folders"][0])
    used = (files.f_blocks - files.f_bfree) * files.f_frsize if job["namespaces"] else job["disk_mb"] << 20
    return anonymous + max(0, counters["shmem"] - used)


def deleted_mappings(folders: list[str], pids: list[int]) -> set[int]:
    """Inodes of deleted files of these folders that are still mapped."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="surrogateescape") as file:
            for line in file:
                if line.endswith(" (deleted)\n") and any(f" {folder}/" in line for folder in folders):
                    found.add(int(line.split()[4]))
    return found


def threads(pids: list[int]) -> int:
    """Number of threads of these processes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{pid}/task"))
    return total


def too_many_tasks(job: dict[str, Any], look: int) -> str | None:
    """The limit of memory or processes that the program exceeds, where the kernel does not enforce it."""
    pids, limit = processes(job), job["memory_mb"] << 20
    if memory_bytes(pids, limit - job["held"]) > limit - job["held"]:
        return "memory"
    if not job["limits_processes"] and threads(pids) > job["max_processes"]:
        return "processes"
    return None


def too_much_held(job: dict[str, Any], look: int) -> str | None:
    """The limit that the program exceeds with its files, locks, or memory that no process shows."""
    pids, looks_at_maps = processes(job), look % LOOKS_AT_MAPS == 0
    if looks_at_maps and locks(pids, job["max_locks"]) > job["max_locks"]:
        return "locks"
    if not job["limits_disk"] and exceeds_disk(job, pids, looks_at_maps):
        return "disk"
    if job["memory_stat"] is None:
        job["held"] = held_bytes(job, pids)
        return "memory" if job["held"] > job["memory_mb"] << 20 else None
    if looks_at_maps:
        job["looks_over"] = job["looks_over"] + 1 if group_bytes(job) > job["memory_mb"] << 20 else 0
    return "memory" if job["looks_over"] >= LOOKS_OVER else None


def exceeds_disk(job: dict[str, Any], pids: list[int], looks_at_maps: bool) -> bool:
    """Whether the files of the program are too large, where the kernel does not limit them."""
    limit = job["disk_mb"] << 20
    # Their paths as the kernel writes them: /tmp may be a link
    paths = [os.readlink(f"/proc/self/fd/{folder}") for folder in job["folders"]]
    mapped = deleted_mappings(paths, pids) if looks_at_maps else set()
    if disk_bytes(job["folders"], pids, limit, mapped) <= limit:
        return False
    if not mapped:
        return True
    mapped &= deleted_mappings(paths, pids)  # unless it was unmapped and closed between the two checks
    return disk_bytes(job["folders"], pids, limit, mapped) > limit


def watch(job: dict[str, Any], exceeded: Callable[[dict[str, Any], int], str | None], found: int) -> None:
    """Checks the program until it exceeds a limit, and writes which one, or an error. Runs in its own thread, because
    reading a process's memory waits while that process forks, and a fork bomb's processes do nothing else."""
    try:
        look, reason = 0, None
        while reason is None:
            time.sleep(TICK_S)
            look += 1
            reason = exceeded(job, look)
    except BaseException as error:  # no program runs unwatched
        reason = f"!{type(error).__name__}: {error}"
    os.write(found, f"{reason}\n".encode())


def oom_kills() -> int:
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def find_submission(job: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """The bytes of submission.csv, or why there are none."""
    try:
        return read_submission("submission.csv", job["submission_mb"], job["folders"][0]), None
    except ValueError as error:
        return None, str(error)
    except FileNotFoundError:
        return None, None


def supervise(pid: int, started: int, job: dict[str, Any], job_socket: socket.socket) -> dict[str, Any]:
    """Waits for the program to end, or ends it; returns the report."""
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
    # Two threads, because a check of what a program holds may take long
    for exceeded in (too_many_tasks, too_much_held):
        threading.Thread(target=watch, args=(job, exceeded, found), daemon=True).start()
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
            os._exit(1)  # the caller is gone
        reason = "stopped"
    elif seen in events:
        reason = os.read(seen, 4096).decode().partition("\n")[0]
    else:
        reason = "timeout"
    if reason != "exit":
        signal_all(job)  # all at once: the program's own process dies slowly among its forks
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
        if job["namespaces"]:
            kernel.map_user(*job["ids"])
            make_mounts(job)
        else:
            if job["uid"] is not None:
                kernel.become_guard(job["guard_uid"], job["uid"], job["keep_capabilities"])
            elif job["isolates"]:
                kernel.set_capabilities(0)
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            if job["landlock_abi"]:
                kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
                if job["landlock_abi"] >= 6:  # otherwise the uids alone confine signals
                    kernel.scope_signals()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        job["oom_kills"] = oom_kills()
        one, other = socket.socketpair()
        with one, other:  # one write, of at most half its buffer, may exceed the buffer
            job["socket_bytes"] = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) * 3 // 2
        job |= {"held": 0, "looks_over": 0}
        # Opened now, before the program can replace them
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        job["folders"] = [os.open(job[name], flags) for name in ("workdir", "tmp")]
        started, started_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            if job["uid"] is not None:
                os.setresuid(job["uid"], job["uid"], job["uid"])
            goes_first(job["namespaces"], job["gpus"])
            become_program(job, fds, started_write)
        os.close(started_write)
        # A rule of Landlock ends with the kernel's entry for a file, which, unless open, may go when memory is short
        with contextlib.suppress(OSError):  # the program has ended
            for path, _ in own_grants(pid, job["gpus"]) if job["landlock_abi"] else ():
                os.open(path, os.O_PATH)
        rest = fds[2 + job["groups"] :]
        job["memory_stat"] = rest.pop(0) if job["memory_is_bounded"] else None
        job["weight"] = rest
        for fd in fds[: 2 + job["groups"]]:
            os.close(fd)
        report = supervise(pid, started, job, job_socket)
        if "error" not in report:
            submission, report["submission_error"] = find_submission(job)
    except BaseException as error:  # no program runs without this process
        if pid:  # earlier, this process's signals may reach everything
            kill_all(fixed)
        report = {"error": f"{type(error).__name__}: {error}"}
    send_report(job_socket, report, submission)
    os._exit(0)
