"""What programs see of the caller's Python environment, and what of it is hidden from them."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from trl_mle.execution.sandbox.error import SandboxError


SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # what programs see of the system, beside some files


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> list[str]:
    distinct = sorted(set(paths))
    return [path for path in distinct if not any(_lies_in(path, other) for other in distinct if other != path)]


class SearchPath(NamedTuple):
    """
    The `sys.path` of a new interpreter: what exists, in its order.

    Args:
        visible (`list[str]`):
            Folders and zip files that programs see.
        left_out (`list[str]`):
            Those that they do not see, because more than packages lies there: a checkout of this package, the working
            folder, the user's home, /tmp, and what these lie in.
    """

    visible: list[str]
    left_out: list[str]


def pythonpath() -> list[str]:
    """PYTHONPATH's folders. An empty one, the working folder, mostly comes of a colon too many."""
    if sys.flags.ignore_environment:
        return []
    return [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


@functools.cache
def search_path() -> SearchPath:
    """A new interpreter is asked, because `.pth` files add what they like, and this process' own `sys.path` has a script's
    folder and whatever was put there since."""
    flags = ["-P", *["-E"] * sys.flags.ignore_environment, *["-s"] * sys.flags.no_user_site]
    done = subprocess.run(
        [sys.executable, *flags, "-c", "import json, sys; print(json.dumps(sys.path))"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(pythonpath())},
        stdout=subprocess.PIPE,
        check=True,
    )
    path = [entry for entry in json.loads(done.stdout.splitlines()[-1]) if os.path.exists(entry)]
    left_out = [entry for entry in path if _holds_more_than_packages(os.path.realpath(entry))]
    return SearchPath([entry for entry in path if entry not in left_out], left_out)


def _is_checkout(folder: str) -> bool:
    """Whether this package's source lies there: what makes the mirrors' labels, and tests that know good solutions."""
    return os.path.isdir(f"{folder}/trl_mle") and not any(Path(folder).glob("trl_mle-*.dist-info"))


def _holds_more_than_packages(folder: str) -> bool:
    if _is_checkout(folder):
        return True
    if any(_lies_in(folder, os.path.realpath(root)) for root in (*SYSTEM, sys.prefix, sys.base_prefix)):
        return False  # these are seen whole
    source = str(Path(__file__).parents[3])
    private = [os.getcwd(), os.path.expanduser("~"), "/tmp", *[source] * _is_checkout(source)]  # noqa: S108
    return any(_lies_in(os.path.realpath(place), folder) for place in private)


def python_folders() -> list[str]:
    """What the running interpreter and its packages live in, outermost folders and zip files only, the system's left out."""
    roots = (sys.prefix, sys.base_prefix, *search_path().visible)
    # uv and others reach the base through a link, which has to be there too.
    paths = [path for root in roots for path in (os.path.abspath(root), os.path.realpath(root))]
    return _outermost(path for path in paths if not any(_lies_in(path, root) for root in SYSTEM))


def check_labels_hidden(competition_id: str, public_dir: Path) -> None:
    """Raises `SandboxError` if a competition's data lie where every program can read, its labels among them."""
    folder = os.path.realpath(public_dir.parent)
    for prefix in map(os.path.realpath, ("/usr", *python_folders())):
        if _lies_in(folder, prefix):
            raise SandboxError(
                f"the data of {competition_id!r} lie in {prefix}, which programs can read with the Python environment",
                "Move them elsewhere (TRL_MLE_CACHE, data_dir)",
            )


def hidden_folders() -> set[str]:
    """Real paths of folders in every Python environment that a program can see from which it could tell labels:
    scikit-learn's data, of which the local competitions are made, and this package, which makes the mirrors."""
    patterns = [
        f"{below}{lib}/python3*/{packages}"
        for below in ("", "local/", "envs/*/", "pkgs/*/")  # Debian, conda
        for lib in ("lib", "lib64")
        for packages in ("site-packages", "dist-packages")
    ]
    path = search_path()
    found = [
        place for root in ("/usr", *python_folders()) for pattern in patterns for place in Path(root).glob(pattern)
    ]
    folders = [Path(entry) for entry in path.left_out if _is_checkout(entry)]
    for place in (*map(str, found), *path.visible):
        folders += [Path(place, "sklearn/datasets/data"), Path(place, "trl_mle")]
    return {os.path.realpath(folder) for folder in folders if folder.is_dir()}


def views(paths: set[str]) -> list[str]:
    """Where programs would see what lies below their folders at these real paths, outermost only."""
    roots = [(root, os.path.realpath(root)) for root in ("/usr", *python_folders())]
    return _outermost(
        root + path[len(real) :] for path in paths for root, real in roots if path.startswith(f"{real}/")
    )
