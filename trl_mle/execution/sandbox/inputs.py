"""What programs find as `input/`: a competition's public folder, or a copy of it."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_mle.execution.sandbox.error import SandboxError
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.tier import INPUT, Tier


MAX_COPIED_MB, MAX_COPIED_ENTRIES = 32, 1000  # of one folder


@dataclass(frozen=True)
class Input:
    folder: Path  # that it reads, on this machine
    bound: Path  # that the warm parent's sandbox shows: the folder of all copies, or `folder`
    job: dict[str, Any]  # settings of its job, JSON-compatible; `input` is the folder's path inside the sandbox


class Inputs:
    """
    Makes the inputs of an executor's programs.

    A sandbox with namespaces shows the folders that were bound when its warm parent started. So that one warm parent
    serves all competitions, it binds the folder of all *copies*, where each program has a copy of a small public
    folder while it runs. A large public folder is bound itself, by a warm parent of its own. Other tiers need neither.
    """

    def __init__(self, run_dir: Path, tier: Tier, python: Interpreter):
        self._tier = tier
        self._python = python
        # Only this user can reach the copies, because the data may come from a folder that others may not enter
        (run_dir / "private").mkdir(mode=0o700, exist_ok=True)
        self._copies = run_dir / "private" / "inputs"
        self._copies.mkdir(exist_ok=True)
        self._copies.chmod(0o711)  # the sandbox's uid cannot list them
        self._names: dict[Path, frozenset[str]] = {}  # in public folders, when programs began

    def check_whole(self, public_dir: Path) -> None:
        """Raises `SandboxError` if a file was added to a public folder or removed from it since programs began."""
        found = os.listdir(public_dir) if public_dir.is_dir() else []
        names = frozenset(name for name in found if name[0] not in ".~")  # editors leave locks
        if self._names.setdefault(public_dir, names) != names:
            raise SandboxError(f"the files of {public_dir} are not those that programs began with")

    @contextlib.contextmanager
    def use(self, public_dir: Path) -> Iterator[Input]:
        """The input for this public folder, an absolute path. Raises `SandboxError` if it has changed, or cannot be
        copied or reached."""
        self.check_whole(public_dir)
        job = self._tier.input_settings(public_dir, self._python)
        if not self._tier.namespaces:
            yield Input(public_dir, self._copies, {"input": str(public_dir), **job})
        elif not self._is_small(public_dir):
            yield Input(public_dir, public_dir, {"input": INPUT, **job})
        else:
            copy = Path(tempfile.mkdtemp(dir=self._copies))
            try:
                _copy(public_dir, copy)
                yield Input(copy, self._copies, {"input": f"{INPUT}/{copy.name}", **job})
            finally:
                shutil.rmtree(copy, ignore_errors=True)

    def _is_small(self, public_dir: Path) -> bool:
        """Whether a copy is cheap, and the same: a link could lead elsewhere."""
        left = min(MAX_COPIED_MB << 20, shutil.disk_usage(self._copies).free // 2)
        for number, info in enumerate(_entries(public_dir), 1):
            left -= info.st_size
            is_plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
            if left < 0 or number > MAX_COPIED_ENTRIES or not is_plain:
                return False
        return True


def _copy(public_dir: Path, copy: Path) -> None:
    try:
        shutil.copytree(public_dir, copy, dirs_exist_ok=True)
        for top, _, names in os.walk(copy):
            os.chmod(top, 0o755)  # noqa: S103
            for name in names:
                os.chmod(os.path.join(top, name), 0o644)
    except OSError as error:
        raise SandboxError(f"{public_dir} could not be copied to {copy}, where programs read it: {error}") from error


def _entries(folder: str | Path) -> Iterator[os.stat_result]:
    """Everything below a folder. Follows no link."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)
