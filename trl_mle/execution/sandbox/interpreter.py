"""The Python environment of programs, and its visible and hidden parts."""

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_mle.execution.sandbox.error import CheckUnfinished, SandboxError
from trl_mle.waits import waiting_for


SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # system folders that programs see, besides some files
OLDEST = (3, 11)  # Python that `inside/` runs on
TIMEOUT_S = 60.0
MARK = "trl_mle-interpreter:"  # .pth files may print, too
ASK = f"""
import json, os, site, sys
print({MARK!r} + json.dumps({{
    "executable": sys.executable, "prefix": sys.prefix, "base_prefix": sys.base_prefix,
    "path": [entry for entry in sys.path if os.path.exists(entry)], "numbers": sys.version_info[:2],
    "user_base": site.getuserbase(), "user_site": site.getusersitepackages(),
}}))
"""


@dataclass(frozen=True)
class Interpreter:
    """The interpreter of programs, and the location of its packages."""

    executable: str
    prefix: str  # root of its environment
    base_prefix: str  # root of the installation that it was created from
    visible: tuple[str, ...]  # folders and zip files on its `sys.path` that programs see, in order
    # Those that they do not see, because these contain more than packages: a checkout of this package, the working
    # folder, the user's home, /tmp, and their parent folders
    left_out: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]  # the environment variables that determine `sys.path`

    @property
    def folders(self) -> list[str]:
        """Outermost folders and zip files of the interpreter and its packages, without the system's."""
        roots = (self.prefix, self.base_prefix, *self.visible)
        # uv and others reach the base through a link, which must be visible too
        paths = [path for root in roots for path in (os.path.abspath(root), os.path.realpath(root))]
        return _outermost(path for path in paths if not any(_lies_in(path, root) for root in SYSTEM))

    def check_nothing_private(self) -> None:
        """Raises `SandboxError` if the working folder or the user's home is inside the environment."""
        for root in map(os.path.realpath, (self.prefix, self.base_prefix)):
            for place in map(os.path.realpath, (os.getcwd(), os.path.expanduser("~"))):
                if _lies_in(place, root) and not any(_lies_in(root, system) for system in SYSTEM):
                    raise SandboxError(
                        f"{place} lies in the Python environment {root}, which programs can read",
                        "Make an environment in a folder of its own, or work elsewhere",
                    )

    def check_labels_hidden(self, competition_id: str, public_dir: Path) -> None:
        """Raises `SandboxError` if every program could read a competition's data, including its labels."""
        folder = os.path.realpath(public_dir.parent)
        for prefix in map(os.path.realpath, ("/usr", *self.folders)):
            if _lies_in(folder, prefix):
                raise SandboxError(
                    f"the data of {competition_id!r} lie in {prefix}, which programs can read with their environment",
                    "Move them elsewhere (TRL_MLE_CACHE, data_dir)",
                )

    def hidden_folders(self) -> set[str]:
        """Real paths of folders in visible Python environments that would reveal labels: scikit-learn's data, the
        source of the local competitions, and this package, which generates the mirrors."""
        source = str(Path(__file__).parents[3])  # it may lie in what another environment shows
        folders = [entry for entry in (source, *self.left_out) if _is_checkout(entry)]
        for root in {os.path.realpath(root) for root in self._roots}:
            folders += _revealing(root)
        return {os.path.realpath(folder) for folder in folders if os.path.isdir(folder)}

    def views(self, paths: set[str]) -> list[str]:
        """Paths under which programs would see these real paths inside their folders, outermost only."""
        roots = [(root, os.path.realpath(root)) for root in self._roots]
        return _outermost(
            root + path[len(real) :] for path in paths for root, real in roots if path.startswith(f"{real}/")
        )

    @property
    def _roots(self) -> list[str]:
        return [*(root for root in SYSTEM if os.path.isdir(root) and not os.path.islink(root)), *self.folders]


@functools.cache
def _revealing(root: str) -> list[str]:
    """Folders below a root that would reveal labels: scikit-learn's data, this package, and conda's archives. Follows
    no link, and does not look into packages."""
    found, left = [], [root]
    with waiting_for(f"the search of {root} for Python environments"):
        while left:
            folder = left.pop()
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == "sklearn":
                        found.append(f"{entry.path}/datasets/data")
                    elif entry.name == "trl_mle":
                        found.append(entry.path)
                    elif entry.name == "conda-meta":
                        found.append(f"{folder}/pkgs")
                    elif not folder.endswith(("/site-packages", "/dist-packages")) and entry.is_dir(
                        follow_symlinks=False
                    ):
                        left.append(entry.path)
    return found


@functools.cache
def find_interpreter(python: str | None = None) -> Interpreter:
    """Finds the interpreter of programs, as a new process describes it: the one at this path, without PYTHONPATH and
    the user's packages; by default this process's, with everything on its path. Raises `SandboxError` if it does not
    run, or is too old."""
    said, pythonpath = _ask(python)
    roots = (*SYSTEM, said["prefix"], said["base_prefix"])
    left_out = [entry for entry in said["path"] if _holds_more_than_packages(os.path.realpath(entry), roots)]
    visible = [entry for entry in said["path"] if entry not in left_out]
    executable = said["executable"]
    if not any(_lies_in(executable, root) for root in (*roots, *visible)):  # a link that programs would not see
        executable = os.path.realpath(executable)
    has_user_site = said["user_site"] in visible
    variables = (
        ("PYTHONPATH", os.pathsep.join(folder for folder in pythonpath if folder in visible)),
        ("PYTHONUSERBASE", said["user_base"]) if has_user_site else ("PYTHONNOUSERSITE", "1"),
    )
    return Interpreter(executable, said["prefix"], said["base_prefix"], tuple(visible), tuple(left_out), variables)


def _ask(python: str | None) -> tuple[dict[str, Any], list[str]]:
    """What an interpreter says about itself, and the folders of PYTHONPATH that it was started with."""
    name, flags, pythonpath = python or sys.executable, ["-I"], []
    if python is None:
        flags = ["-P"]
        pythonpath = [
            os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder
        ]
    try:
        with waiting_for(f"{name} to start"):
            done = subprocess.run(
                [os.path.expanduser(name), *flags, "-c", ASK],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(pythonpath)},
                stdout=subprocess.PIPE,
                check=True,
                timeout=TIMEOUT_S,
                text=True,
                errors="replace",
            )
        answer = next(line for line in reversed(done.stdout.splitlines()) if line.startswith(MARK))
    except subprocess.TimeoutExpired as error:
        raise CheckUnfinished(f"program_python: {name} did not answer within {TIMEOUT_S:.0f} s") from error
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        raise SandboxError(f"program_python: {name} is not a working Python interpreter: {error}") from error
    said = json.loads(answer.removeprefix(MARK))
    if tuple(said["numbers"]) < OLDEST:
        numbers = ".".join(map(str, said["numbers"]))
        raise SandboxError(f"program_python: {name} is Python {numbers}, but programs need 3.11 or newer")
    return said, pythonpath


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> list[str]:
    distinct = sorted(set(paths))
    return [path for path in distinct if not any(_lies_in(path, other) for other in distinct if other != path)]


def _is_checkout(folder: str) -> bool:
    """Whether this is a checkout of this package, which has the mirrors' labels and solutions."""
    return os.path.isdir(f"{folder}/trl_mle") and not any(Path(folder).glob("trl_mle-*.dist-info"))


def _holds_more_than_packages(folder: str, seen: Iterable[str]) -> bool:
    if _is_checkout(folder):
        return True
    if any(_lies_in(folder, os.path.realpath(root)) for root in seen):
        return False  # these are seen whole
    source = str(Path(__file__).parents[3])
    private = [os.getcwd(), os.path.expanduser("~"), "/tmp", *[source] * _is_checkout(source)]  # noqa: S108
    return any(_lies_in(os.path.realpath(place), folder) for place in private)
