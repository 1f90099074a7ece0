"""The init of one program: makes its namespaces' mounts, monitors, times and ends it, and reports."""

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import threading
import time
from typing import Any

from . import kernel
from .run_program import become_program, own_grants
from .submission import read_submission
from .usage import children, too_many_tasks, too_much_held, watch


MAX_FDS = 250  # with a job; the kernel passes 253 at most
TAKEN_S = 10.0  # within which a caller takes a report


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
    in_tmp = [folder for folder in job["python_folders"] if folder.startswith("/tmp/")]  # noqa: S108
    binds += [(folder, scratch + folder) for folder in in_tmp]  # an environment below /tmp stays visible
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


def signal_all(job: dict[str, Any]) -> None:
    """Kills every process of the program."""
    for fd in job.pop("weight", ()):  # dying takes CPU time, too, and others wait for it
        with contextlib.suppress(OSError):
            os.write(fd, job["highest_weight"].encode())
    # -1 is everything that this process' signals reach, except itself, in one step.
    for pid in [-1] if job["isolates"] else children(os.getpid()):
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


def oom_kills() -> int:
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def supervise(pid: int, started: int, job: dict[str, Any], job_socket: socket.socket) -> dict[str, Any]:
    """Waits for the program to end, or ends it; returns the report."""
    pidfd = os.pidfd_open(pid)
    begin = b""
    while chunk := os.read(started, 4096):  # ends when the program starts: it closes its copy then
        begin += chunk
    os.close(started)
    if not begin.startswith(b"@"):
        kill_all(job)
        error = begin.removeprefix(b"!").decode(errors="replace")
        return {"error": error or "the program's process died at its start"}
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
    events = dict(poll.poll(min(max(0.0, left), 1e6) * 1000))  # more is refused
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
    header, fds, _, _ = socket.recv_fds(job_socket, 4, MAX_FDS)
    length = struct.unpack("=I", header)[0]
    payload = job_socket.recv(length, socket.MSG_WAITALL)
    if len(payload) < length:
        os._exit(1)  # the caller is gone
    return json.loads(payload.decode("utf-8", errors="surrogatepass")), fds


def send_report(job_socket: socket.socket, report: dict[str, Any], submission: bytes | None = None) -> None:
    report["submission_bytes"] = len(submission) if submission is not None else None
    payload = json.dumps(report).encode()
    with contextlib.suppress(BrokenPipeError):
        job_socket.sendall(struct.pack("=I", len(payload)) + payload + (submission or b""))


def confine(job: dict[str, Any]) -> None:
    """Makes this process pid 1 of the program's namespaces, or a subreaper that can signal the program alone."""
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


def start_program(job: dict[str, Any], fds: list[int]) -> tuple[int, int]:
    """Forks the program; returns its pid, and a pipe that ends when it starts. The job gets what the watch needs."""
    one, other = socket.socketpair()
    with one, other:  # one write, of at most half its buffer, may exceed the buffer
        job["socket_bytes"] = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) * 3 // 2
    job |= {"oom_kills": oom_kills(), "held": 0, "looks_over": 0}
    # Opened now, before the program can replace them
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    job["folders"] = [os.open(job[name], flags) for name in ("workdir", "tmp")]
    started, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_program(job, fds, theirs)
    os.close(theirs)
    return pid, started


def init(job_socket: socket.socket, fixed: dict[str, Any]) -> None:
    """Sees a program through, from its job to its report. Never returns."""
    submission: bytes | None = None
    pid, locks = 0, []
    try:
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        job, fds = receive_job(job_socket)
        job |= fixed
        confine(job)
        pid, started = start_program(job, fds)
        # A rule of Landlock ends with the kernel's entry for a file, which, unless open, may go when memory is short
        with contextlib.suppress(OSError):  # the program has ended
            for path, _ in own_grants(pid, job["gpus"]) if job["landlock_abi"] else ():
                os.open(path, os.O_PATH)
        locks = fds[2 + job["groups"] :]
        job["memory_stat"] = locks.pop(0) if job["memory_is_bounded"] else None
        job["weight"] = [locks.pop(0)] if job["highest_weight"] else []
        for fd in fds[: 2 + job["groups"]]:
            os.close(fd)
        report = supervise(pid, started, job, job_socket)
        if "error" not in report:
            try:
                submission = read_submission("submission.csv", job["submission_mb"], job["folders"][0])
            except FileNotFoundError:
                pass
            except ValueError as error:
                report["submission_error"] = str(error)
    except BaseException as error:  # no program runs without this process
        if pid:  # earlier, this process's signals may reach everything
            kill_all(fixed)
        report = {"error": f"{type(error).__name__}: {error}"}
    hand_over(job_socket, report, submission, locks)
    os._exit(0)


def hand_over(job_socket: socket.socket, report: dict[str, Any], submission: bytes | None, locks: list[int]) -> None:
    """Sends the report, and holds the slot until the caller has taken it."""
    job_socket.settimeout(TAKEN_S)
    with contextlib.suppress(OSError):
        send_report(job_socket, report, submission)
        job_socket.shutdown(socket.SHUT_WR)
    taken = select.poll()
    taken.register(job_socket, select.POLLHUP)
    if not taken.poll(TAKEN_S * 1000):  # the caller was stopped: others may have its slot
        for fd in locks:
            fcntl.flock(fd, fcntl.LOCK_UN)
