"""Watches one program: what it holds beyond what the kernel bounds, and memory that no process shows."""

import contextlib
import errno
import math
import os
import random
import resource
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any


TICK_S = 0.1  # time between two checks of a program's memory
LOOKS_AT_MAPS = 10  # every tenth check also reads the mappings and locks, which are long
LOOKS_OVER = 3  # a group is over its memory after three in a row: the kernel's counters may lag behind its files
# The kernel's memory for a mapping and for a file that an epoll waits for, at most
MAPPING_BYTES, EVENT_BYTES = 256, 256
SAMPLED = 8  # lists of mappings or events that a check reads: all of them may take too long
PF_EXITING = 0x4  # <linux/sched.h>


def children(pid: int) -> Iterator[int]:
    """All descendants of a process in /proc, each before its own children: one killed at once forks no more."""
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
    own = os.getpid()
    if not job["namespaces"]:
        return list(children(own))
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def resident_bytes(pid: int) -> int:
    """Resident memory, swapped-out memory and page tables of a process, by a thread that has not ended."""
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
    """Memory of these processes: exact only if the cheap sum, which counts shared pages in full, exceeds the limit."""
    total = sum(map(resident_bytes, pids))
    if total > limit:
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
    """Bytes of the files below open folders and of deleted files that these processes hold open, each a page at least,
    until the limit. Infinite if a folder or a process cannot be read, if folders are nested too deeply, or if a
    deleted file is mapped (`mapped` holds inodes) but not open."""
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
    """Paths of the descriptors of these processes, by thread; the first one of a thread that cannot be read."""
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
    """Whether the thread of a descriptor is undumpable, so that it cannot be read, and is not just ending."""
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


def too_many_tasks(job: dict[str, Any], look: int) -> str | None:
    """The limit of memory or processes that the program exceeds, where the kernel does not enforce it."""
    pids, limit = processes(job), job["memory_mb"] << 20
    if memory_bytes(pids, limit - job["held"]) > limit - job["held"]:
        return "memory"
    if job["namespaces"]:
        return None
    threads = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            threads += len(os.listdir(f"/proc/{pid}/task"))
    return "processes" if threads > job["max_processes"] else None


def too_much_held(job: dict[str, Any], look: int) -> str | None:
    """The limit that the program exceeds with its files, locks, or memory that no process shows."""
    pids, looks_at_maps = processes(job), look % LOOKS_AT_MAPS == 0
    if looks_at_maps and locks(pids, job["max_locks"]) > job["max_locks"]:
        return "locks"
    if not job["namespaces"] and exceeds_disk(job, pids, looks_at_maps):
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
    """Checks the program until it exceeds a limit, and writes which one, or an error. In its own thread, because
    reading a process's memory waits while that process forks."""
    try:
        look, reason = 0, None
        while reason is None:
            time.sleep(TICK_S)
            look += 1
            reason = exceeded(job, look)
    except BaseException as error:  # no program runs unwatched
        reason = f"!{type(error).__name__}: {error}"
    os.write(found, f"{reason}\n".encode())
