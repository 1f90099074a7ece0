"""Control groups. If this user may create them, the kernel limits memory, processes and CPU time.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import contextlib
import logging
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil


logger = logging.getLogger(__name__)

CONTROLLERS = ("memory", "pids")
RECORD = "groups"  # the file in an executor's folder that lists its groups' folders
# With a cpu controller: a program's weight, which is that of one process, and the highest, with which it is killed
WEIGHTS = {"cpu.weight": ("100", "10000"), "cpu.shares": ("1024", "262144")}


def parents() -> list[Path]:
    """Folders in which groups can be created: under cgroup v2 one, beside the caller's group in its unit, under v1 one
    for each controller, or none."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path.lstrip("/"))
    mounts: dict[str, Path] = {}
    for partition in psutil.disk_partitions(all=True):
        if partition.fstype == "cgroup2":
            mounts[""] = Path(partition.mountpoint)
        elif partition.fstype == "cgroup":
            mounts |= dict.fromkeys(partition.opts.split(","), Path(partition.mountpoint))
    if all(controller in own and controller in mounts for controller in CONTROLLERS):
        folders = [mounts[controller] / own[controller] for controller in CONTROLLERS]
        shares = mounts.get("cpu", Path()) / own.get("cpu", "")
        folders += [shares] if "cpu" in mounts and os.access(shares, os.W_OK) else []
    elif "" in own and "" in mounts:
        if not any(part.endswith((".service", ".scope")) for part in Path(own[""]).parts[:-1]):
            return []
        folders = [(mounts[""] / own[""]).parent]
        enabled = folders[0] / "cgroup.subtree_control"
        if not enabled.is_file() or not set(CONTROLLERS) <= set(enabled.read_text().split()):
            return []
    else:
        return []
    return folders if all(os.access(folder, os.W_OK) for folder in folders) else []


class ControlGroup:
    """The control group of one slot, which limits nothing without `parents`. `folders` has one for each of these, the
    one for memory first; `highest_weight` is the largest share of the cores, empty if this cannot be set. Raises
    `OSError` if it cannot be created."""

    def __init__(self, parents: Sequence[Path], name: str, memory_mb: int, max_processes: int):
        limits = {  # each version of cgroups has some of these
            "memory.max": memory_mb << 20,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "memory.limit_in_bytes": memory_mb << 20,
            "memory.memsw.limit_in_bytes": memory_mb << 20,
            "pids.max": max_processes,
        }
        self._earlier_oom_kills = 0
        self.folders = [parent / name for parent in parents]
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
            for file, value in limits.items():
                if (folder / file).exists():
                    (folder / file).write_text(str(value))
        weights = [folder / file for folder in self.folders for file in WEIGHTS if (folder / file).exists()]
        self._weight = weights[0] if weights else None
        self.highest_weight = WEIGHTS[weights[0].name][1] if weights else ""
        if self.folders:  # checks that a process can join
            files = [str(folder / "cgroup.procs") for folder in self.folders]
            join = ["sh", "-ec", 'for file; do echo 0 > "$file"; done', "sh", *files]
            done = subprocess.run(join, capture_output=True, text=True, check=False)
            if done.returncode:
                self.remove()
                raise OSError(f"no process can join {self.folders[0]}: {done.stderr.strip()}")

    def open(self, closing: contextlib.ExitStack) -> list[int]:
        """Resets the weight, and opens descriptors for the next program: to join the group by writing `0`, one for
        each of `folders`; to read its memory; and to set its weight, if `highest_weight` is set."""

        def opened(path: Path, flags: int) -> int:
            fd = os.open(path, flags | os.O_CLOEXEC)
            closing.callback(os.close, fd)
            return fd

        self._earlier_oom_kills = self._oom_kills()
        fds = [opened(folder / "cgroup.procs", os.O_WRONLY) for folder in self.folders]
        fds += [opened(folder / "memory.stat", os.O_RDONLY) for folder in self.folders[:1]]
        if self._weight is not None:
            self._weight.write_text(WEIGHTS[self._weight.name][0])
            fds.append(opened(self._weight, os.O_WRONLY))
        return fds

    def over_memory(self) -> bool:
        """Whether the kernel has killed processes of the program for memory: under v1 others may wait for them
        forever."""
        return self._oom_kills() > self._earlier_oom_kills

    def _oom_kills(self) -> int:
        for folder in self.folders:
            for file in ("memory.events", "memory.oom_control"):
                if (folder / file).exists():
                    counters = dict(line.split() for line in (folder / file).read_text().splitlines())
                    return int(counters["oom_kill"])
        return 0

    def remove(self) -> None:
        """Removes the group, which must be empty."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make_groups(run_dir: Path, count: int, memory_mb: int, max_processes: int) -> list[ControlGroup]:
    """Creates groups; they limit nothing if they cannot be created."""
    names = [f"{run_dir.name}.{index}" for index in range(count)]
    try:
        folders = parents()
        # Whoever removes them may have other parents
        (run_dir / RECORD).write_text("".join(f"{folder / name}\n" for folder in folders for name in names))
        return [ControlGroup(folders, name, memory_mb, max_processes) for name in names]
    except OSError as error:
        logger.warning("control groups are not used: %s", error)
        return [ControlGroup((), name, memory_mb, max_processes) for name in names]


def remove_groups(run_dir: Path) -> None:
    """Removes the groups of an executor; raises `OSError` while processes in them are still ending."""
    record = run_dir / RECORD
    for line in record.read_text().splitlines() if record.exists() else ():
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(line)
