"""The record of all executions, as JSON lines."""

import hashlib
import json
import logging
import logging.handlers
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Handler(logging.handlers.RotatingFileHandler):
    """Raises what it meets: a record must not be lost because a disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:
        raise


class ExecutionLog:
    """
    Appends one JSON line per execution to a file that can be read at the same time. Every line is flushed when
    written, so a SIGKILL loses at most the last line. A file that reaches `max_mb` is renamed to `<name>.1`, and older
    ones to `.2` and so on.

    Args:
        path (`Path`):
            The file, one per process; its folder is created with the first line.
        max_mb (`int`, *optional*, defaults to `64`):
            Size of one file in MB.
    """

    def __init__(self, path: Path, max_mb: int = 64):
        self.path = path
        end_last_line(path)
        self._handler = Handler(path, maxBytes=max_mb << 20, backupCount=1000, encoding="utf-8", delay=True)

    def __reduce__(self) -> tuple:  # another process has its own handler
        return ExecutionLog, (self.path, self._handler.maxBytes >> 20)

    def append(self, source: str, **fields: Any) -> None:
        """Adds a line: the time, the SHA-256 of the program's source, and the fields, which must be JSON-compatible."""
        digest = hashlib.sha256(source.encode("utf-8", errors="surrogatepass")).hexdigest()
        line = json.dumps({"time": datetime.now(UTC).isoformat(), "program": digest} | fields)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handler.emit(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        self._handler.close()


def end_last_line(path: Path) -> None:
    """Ends a line that a kill or a full disk has truncated; readers skip it."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")
