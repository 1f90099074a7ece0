"""The tiers' common interface: facts about how a tier isolates programs, and how it starts."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyseccomp

from trl_mle.execution import inside
from trl_mle.execution.sandbox.interpreter import Interpreter


# Paths of programs that have namespaces, in a folder of their own, because a Python environment may lie anywhere else
WORKDIR, INPUT, SCRATCH = "/sandbox/work", "/sandbox/input", "/sandbox/scratch"
# With `own_uids`, the uids of slots and of their inits; any that own nothing will do
FIRST_SLOT_UID, FIRST_GUARD_UID = 57000, 53000


@dataclass(frozen=True)
class Tier:
    """A tier of the sandbox: its facts, and how it starts. The fields reach the code in `inside/` with each program's
    job. A new tier is a subclass in a file of this folder, and its place in `TIERS`."""

    name: ClassVar[str]  # as in `sandbox=`
    remedy: ClassVar[str] = ""  # how to make it work on a machine where it does not

    # Whether programs are restricted, which a program that tries forbidden actions checks when an executor starts
    isolates: bool = True
    # Whether each program has namespaces of its own: its /proc shows its processes and sockets alone, and the kernel
    # limits its processes, and its disk by a tmpfs. Otherwise its init watches them
    namespaces: bool = False
    # Whether each slot has a uid of its own, so that limits and signals reach no other program, and its init another,
    # so that signals do not reach that either. Needs root
    own_uids: bool = False
    landlock_abi: int = 0  # of the kernel's Landlock, if it restricts programs to the `grants` of `settings`

    def __str__(self) -> str:
        return self.name

    def uids(self, slot: int) -> tuple[int | None, int | None]:
        """The uids of a slot's program and of its init; `None` where they have the caller's."""
        return (FIRST_SLOT_UID + slot, FIRST_GUARD_UID + slot) if self.own_uids else (None, None)

    def check_available(self) -> None:
        """Raises `SandboxError` if this machine lacks the tier's requirements."""

    def add_rules(self, filter_: pyseccomp.SyscallFilter) -> None:
        """Adds the denials of system calls that only this tier needs."""

    def settings(self, gpus: bool, python: Interpreter) -> dict[str, Any]:
        """Further settings of all jobs of a warm parent: with `landlock_abi` the `grants`, besides their input."""
        return {}

    def input_settings(self, folder: Path, python: Interpreter) -> dict[str, Any]:
        """Further settings of the jobs with this input: with `own_uids` the capabilities that programs keep."""
        return {}

    def command(self, control_fd: int, bound: Path, folder: Path, gpus: bool, python: Interpreter) -> list[str]:
        """The command line that starts a warm parent: with the inheritable descriptor of its end of the control
        socket; with `namespaces`, the folder that its sandbox shows, read-only, at `INPUT`, with what is created in it
        later; and a folder of its own. `gpus` says whether programs see the NVIDIA devices."""
        main = os.path.join(os.path.dirname(inside.__file__), "__main__.py")
        return [python.executable, "-P", main, str(control_fd)]


@dataclass(frozen=True)
class NoIsolation(Tier):
    """The tier `"none"`, for programs that you trust: a program can access everything that the calling user can.
    Limits, timeouts and the end of the whole process tree still apply."""

    name = "none"
    isolates: bool = False
