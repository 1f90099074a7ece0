"""Writes files that are never half written, and folders that only one process writes to."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file atomically; an interruption leaves the old one intact."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes a folder, and locks out other processes, which would write the same files."""
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file: name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"another process is writing to {folder}: name another folder") from None
        yield
