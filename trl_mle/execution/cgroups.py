"""Control groups: the kernel's limits on the memory, the processes and the share of cores of a program, if this user
may create groups.

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
# Where there is a controller of the cores, too: the weight of a program, however many processes it makes, which is that
# of any one process, and the highest, with which it dies.
WEIGHTS = {"cpu.weight": ("100", "10000"), "cpu.shares": ("1024", "262144")}


def parents() -> list[Path]:
    """Folders in which groups can be made: one under cgroup v2, one for each controller under v1; none if neither can.

    Under v2 a group that holds processes cannot bound parts of itself, so new groups lie beside the caller's own: only
    where both are within one unit of systemd, or the programs would escape the bounds of that unit.
    """
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
    """
    The control group of one slot.

    Args:
        parents (`Sequence[Path]`):
            From [`parents`]. Without any, the group bounds nothing.
        name (`str`):
            Of the group, unique on this machine.
        memory_mb (`int`):
            Memory of all processes in it, in MB, with the files that they keep in memory. Beyond it the kernel kills.
        max_processes (`int`):
            Processes and threads in it.

    Attributes:
        folders (`list[Path]`):
            The group's, one for each of `parents`, that of the memory first.
        highest_weight (`str`):
            The largest share of the cores that it can have; empty if its share cannot be set.

    Raises:
        `OSError`: No group can be made.
    """

    def __init__(self, parents: Sequence[Path], name: str, memory_mb: int, max_processes: int):
        limits = {  # each version of the interface has some of them
            "memory.max": memory_mb << 20,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "memory.limit_in_bytes": memory_mb << 20,
            "memory.memsw.limit_in_bytes": memory_mb << 20,
            "pids.max": max_processes,
        }
        self._limits = limits
        self._earlier_oom_kills = 0
        self.folders = [parent / name for parent in parents]
        self._make()
        weights = [folder / file for folder in self.folders for file in WEIGHTS if (folder / file).exists()]
        self._weight = weights[0] if weights else None
        self.highest_weight = WEIGHTS[weights[0].name][1] if weights else ""
        if self.folders:  # proves that a process can join
            files = [str(folder / "cgroup.procs") for folder in self.folders]
            join = ["sh", "-ec", 'for file; do echo 0 > "$file"; done', "sh", *files]
            done = subprocess.run(join, capture_output=True, text=True, check=False)
            if done.returncode:
                self.remove()
                raise OSError(f"no process can join {self.folders[0]}: {done.stderr.strip()}")

    def _make(self) -> None:
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
            for file, value in self._limits.items():
                if (folder / file).exists():
                    (folder / file).write_text(str(value))

    def open(self, closing: contextlib.ExitStack) -> list[int]:
        """
        File descriptors for the group's next program: a process that writes `0` to one for each of `folders` joins the
        group; the next, if there are folders, counts its memory; what is written to the last, if `highest_weight` is given,
        is its weight, which is the usual one now.

        Args:
            closing (`ExitStack`):
                Closes them, also if the next cannot be opened.
        """

        def opened(path: Path, flags: int) -> int:
            fd = os.open(path, flags | os.O_CLOEXEC)
            closing.callback(os.close, fd)
            return fd

        if not all(folder.is_dir() for folder in self.folders):  # removed by an executor that sees another /tmp
            self._make()
        self._earlier_oom_kills = self._oom_kills()
        fds = [opened(folder / "cgroup.procs", os.O_WRONLY) for folder in self.folders]
        fds += [opened(folder / "memory.stat", os.O_RDONLY) for folder in self.folders[:1]]
        if self._weight is not None:
            self._weight.write_text(WEIGHTS[self._weight.name][0])
            fds.append(opened(self._weight, os.O_WRONLY))
        return fds

    def over_memory(self) -> bool:
        """Whether the kernel has killed processes of the current program because the memory was used up. cgroup v2 kills
        all of them at once; under v1 the others may wait for the dead for ever."""
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


def make_groups(names: Sequence[str], memory_mb: int, max_processes: int) -> list[ControlGroup]:
    """Makes groups with these names; they limit nothing if none can be made."""
    try:
        return [ControlGroup(parents(), name, memory_mb, max_processes) for name in names]
    except OSError as error:
        logger.warning("control groups are not used: %s", error)
        return [ControlGroup((), name, memory_mb, max_processes) for name in names]


def remove_stale(run_dirs: Path) -> None:
    """Removes the groups of executors that were killed. A group is named after its executor's folder, with a dot and the
    slot's number."""
    for parent in parents():
        for folder in parent.glob("trl_mle-*.*"):
            if not (run_dirs / folder.name.partition(".")[0]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
