"""What programs find as `input/`: a competition's public folder, or a copy of it."""

import contextlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl_mle.execution.sandbox.error import SandboxError
from trl_mle.execution.sandbox.interpreter import Interpreter
from trl_mle.execution.sandbox.tier import INPUT, Tier


MAX_COPIES = 32  # at a time; more only if all are in use: /tmp may be memory
MAX_COPIED_MB, MAX_COPIED_ENTRIES = 32, 1000  # of one folder


@dataclass(frozen=True)
class Input:
    """
    What the programs of a competition find as `input/`.

    Attributes:
        folder (`Path`):
            The folder that they read, on this machine.
        bound (`Path`):
            The folder that the warm parent's sandbox shows: the folder of all copies, or `folder`.
        job (`dict`):
            The settings of their jobs, JSON-compatible; `input` is the folder's path inside the sandbox.
        names (`frozenset[str]`):
            The names in the folder when programs began.
    """

    folder: Path
    bound: Path
    job: dict[str, Any]
    names: frozenset[str]

    def is_whole(self) -> bool:
        """Whether nothing was added to the folder or removed from it."""
        return self.folder.is_dir() and _names(self.folder) == self.names


@dataclass(eq=False)
class _Use:
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while the input is made
    users: int = 0
    input: Input | None = None


class Inputs:
    """
    The inputs of an executor's programs, made when they are first used.

    A sandbox with namespaces shows the folders that were bound when its warm parent started. So that one warm parent serves
    all competitions, it binds the folder of all *copies*, where small public folders are copied when a program needs them;
    each program sees one of them. A large public folder is bound itself, by a warm parent of its own. Landlock needs neither:
    each program is granted the public folder. Programs that are not isolated get copies of any size, so that they cannot
    change the data of later runs.

    A copy stays until `MAX_COPIES` others were used after it. Only this user can reach the copies, because the data may come
    from a folder that others may not enter.

    Args:
        run_dir (`Path`):
            The executor's own folder.
        tier ([`Tier`]):
            The tier of the sandbox.
        python ([`~trl_mle.execution.sandbox.Interpreter`]):
            The interpreter of the programs.
    """

    def __init__(self, run_dir: Path, tier: Tier, python: Interpreter):
        self._tier = tier
        self._python = python
        self._copies = run_dir / "private" / "inputs"
        for folder, mode in (
            (self._copies.parent, 0o700),
            (self._copies, 0o711),
        ):  # the sandbox's uid cannot list them
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
        self._uses: dict[Path, _Use] = {}
        self._began: dict[Path, int] = {}  # hashes of the names in public folders
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def use(self, public_dir: Path) -> Iterator[Input]:
        """
        The input of a competition's programs, which stays meanwhile.

        Args:
            public_dir (`Path`):
                The competition's public folder, as an absolute path.

        Raises:
            `SandboxError`: The folder cannot be copied or reached, or a file in it was added or removed since programs began.
        """
        with self._lock:
            use = self._uses.pop(public_dir, None) or _Use()
            self._uses[public_dir] = use  # the last: the one that was used last
            use.users += 1
            left = self._make_room()
        try:
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)
            with use.lock:
                if use.input is None or (self._is_copy(use.input) and not use.input.is_whole()):
                    use.input = self._make(public_dir)
            yield use.input
        finally:
            with self._lock:
                use.users -= 1

    def _is_copy(self, input_: Input) -> bool:
        return input_.folder.parent == self._copies

    def _make_room(self) -> list[Path]:
        """Forgets unused inputs, the least recently used first, until there are few enough; returns their copies."""
        left = []
        for public_dir, use in list(self._uses.items()):
            if len(self._uses) <= MAX_COPIES:
                break
            if not use.users:
                del self._uses[public_dir]
                if use.input is not None and self._is_copy(use.input):
                    left.append(use.input.folder)
        return left

    def _make(self, public_dir: Path) -> Input:
        names = _names(public_dir)
        if self._began.setdefault(public_dir, hash(names)) != hash(names):
            raise SandboxError(f"the files of {public_dir} are not those that programs began with")
        folder = public_dir
        if not self._tier.isolates or (self._tier.namespaces and self._is_small(public_dir)):
            folder = self._copy(public_dir)
        if not self._tier.namespaces:
            bound, path = self._copies, str(folder)
        elif folder == public_dir:
            bound, path = folder, INPUT
        else:
            bound, path = self._copies, f"{INPUT}/{folder.name}"
        return Input(folder, bound, {"input": path, **self._tier.input_settings(folder, self._python)}, names)

    def _is_small(self, public_dir: Path) -> bool:
        """Whether a copy is cheap, and the same: a link could lead elsewhere."""
        left = min(MAX_COPIED_MB << 20, shutil.disk_usage(self._copies).free // 2)
        for number, info in enumerate(_entries(public_dir), 1):
            left -= info.st_size
            if (
                left < 0
                or number > MAX_COPIED_ENTRIES
                or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode))
            ):
                return False
        return True

    def _copy(self, public_dir: Path) -> Path:
        copy = tempfile.mkdtemp(dir=self._copies)
        try:
            shutil.copytree(public_dir, copy, dirs_exist_ok=True)
            for top, _, names in os.walk(copy):
                os.chmod(top, 0o755)  # noqa: S103
                for name in names:
                    os.chmod(os.path.join(top, name), 0o644)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise SandboxError(
                f"{public_dir} could not be copied to {copy}, where programs read it: {error}"
            ) from error
        return Path(copy)


def _names(folder: Path) -> frozenset[str]:
    return frozenset(os.listdir(folder))


def _entries(folder: str | Path) -> Iterator[os.stat_result]:
    """Everything below a folder. Follows no link."""
    with os.scandir(folder) as found:
        for entry in found:
            yield entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)
