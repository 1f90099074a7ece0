"""Reads a submission that an untrusted program left. Exported Harbor tasks have a copy of this file: it imports
nothing of ours."""

import os
import stat


def read_submission(path: str | os.PathLike[str], limit_mb: int, folder: int | None = None) -> bytes:
    """The bytes of a file below an open folder. Follows no link, waits for no pipe, and reads a regular file with one
    link. Raises `FileNotFoundError` if there is nothing, `ValueError` if there is something else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} could not be opened: {error.strerror}") from error
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        os.close(fd)
        raise ValueError(f"{path} is not a regular file")
    with open(fd, "rb") as file:
        content = file.read((limit_mb << 20) + 1)
    if len(content) > limit_mb << 20:
        raise ValueError(f"{path} is larger than {limit_mb} MB")
    return content
