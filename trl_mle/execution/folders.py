"""Folders of an executor and its programs on this machine."""

import contextlib
import fcntl
import os
import resource
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trl_mle.execution import cgroups


# Regardless of TMPDIR: all of a user's processes must find it, and the sandbox's uid must be able to reach it.
TMP = Path("/tmp")  # noqa: S108


def is_own_folder(path: Path) -> bool:
    """Whether this is a folder of this user, and no link: in /tmp, others can create anything."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def make_run_dir() -> tuple[Path, int]:
    """Makes the folder of an executor, with a lock while it lives, and removes those of this user's killed
    executors."""
    for run_dir in filter(is_own_folder, TMP.glob("trl_mle-run-*")):
        with contextlib.suppress(OSError):  # still in use
            fd = hold(run_dir, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_run_dir(run_dir)
            os.close(fd)
    hidden = Path(tempfile.mkdtemp(prefix=".trl_mle-run-", dir=TMP))
    hidden.chmod(0o711)
    fd = hold(hidden, fcntl.LOCK_EX)
    return hidden.rename(hidden.with_name(hidden.name.removeprefix("."))), fd


def hold(folder: Path, kind: int = fcntl.LOCK_SH) -> int:
    """A descriptor that holds a lock on a folder, which systemd's cleaning of /tmp then leaves alone
    (https://systemd.io/TEMPORARY_DIRECTORIES)."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind)
    except OSError:
        os.close(fd)
        raise
    return fd


def remove_run_dir(run_dir: Path) -> None:
    """Removes an executor's folder and control groups, or leaves them to the next one if processes still end."""
    with contextlib.suppress(OSError):
        cgroups.remove_groups(run_dir)
        shutil.rmtree(run_dir, ignore_errors=True)


@contextlib.contextmanager
def program_folder(run_dir: Path, uid: int | None) -> Iterator[Path]:
    """The folder of a program without a file system of its own."""
    folder = Path(tempfile.mkdtemp(dir=run_dir))
    try:
        folder.chmod(0o711)  # the program's uid can enter it, but not change it
        for path in (folder / "work", folder / "tmp"):
            path.mkdir(mode=0o700)
            if uid is not None:
                os.chown(path, uid, uid)
        yield folder
    finally:
        # rm handles any depth; the second one follows after folders have been made searchable
        for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            if folder.exists():
                subprocess.run([*command, str(folder)], stderr=subprocess.DEVNULL, check=False)


def raise_open_files() -> int:
    """Raises and returns this process's limit of open files: a user's descriptors in flight count together."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
