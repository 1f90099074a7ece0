"""Stores results of programs, for programs that are repeated."""

import errno
import hashlib
import json
import logging
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any


logger = logging.getLogger(__name__)

RUN_FILE = "results.sqlite"  # in the output folder of a run that reuses its own results
BUSY_S = 60.0  # maximum time that other processes may lock the file
APPLICATION_ID = 0x4D4C4552  # in SQLite's header, identifies our files
CHECKED = 20  # one in this many repeats is run again


class ResultStore:
    """
    Results of programs, in a file that several processes and runs can share: an SQLite database with SQLite's default
    rollback journal. A process can be killed at any moment, and the next one rolls back its unfinished write. (A write-ahead
    log is not safe if processes on several machines share a file.) The file is opened for each access, so a store can be
    pickled, and used after a fork.

    Keys identify everything that a result depends on, see [`result_key`]. Values are JSON-compatible. The first value of a
    key stays.

    Args:
        path (`str` or `Path`):
            The file, created with the first result.

    Raises:
        `OSError`: The file cannot be a store.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._asked: Counter[str] = Counter()
        try:
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            if self.path.exists():
                with self._connected() as connection:
                    self._begin(connection)
                    connection.execute("COMMIT")
            else:
                existing = next(folder for folder in self.path.absolute().parents if folder.exists())
                tempfile.TemporaryFile(dir=existing).close()
        except sqlite3.Error as error:
            raise OSError(f"{self.path} cannot be a store of results: {error}") from error
        except OSError as error:
            raise OSError(f"{self.path} cannot be a store of results: {error.strerror}") from error

    def find(self, key: str) -> tuple[dict[str, Any] | None, bool]:
        """
        The value of a key, if any, and whether to run the program again as a check: one time in `CHECKED`, a function of the key
        and of how often it was looked up in this store.
        """
        if not self.path.exists():
            return None, False
        try:
            with self._connected() as connection:
                if not _tables(connection):  # another process is creating it
                    return None, False
                row = connection.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:  # not worth ending the run
            logger.warning("a result could not be read from %s: %s", self.path, error)
            return None, False
        if row is None:
            return None, False
        self._asked[key] += 1
        digest = hashlib.sha256(f"{key} {self._asked[key]}".encode()).digest()
        return json.loads(row[0]), int.from_bytes(digest[:4], "big") % CHECKED == 0

    def add(self, key: str, value: dict[str, Any]) -> None:
        """Stores a value if the key has none yet."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connected() as connection:
                self._begin(connection)
                connection.execute("INSERT OR IGNORE INTO results VALUES (?, ?)", (key, json.dumps(value)))
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:  # for example, a full disk: not worth ending the run
            logger.warning("a result could not be stored in %s: %s", self.path, error)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)) as connection:
            yield connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begins a write, and creates the table in an empty file."""
        connection.execute("BEGIN IMMEDIATE")  # otherwise two concurrent writers would deadlock
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        if owner != APPLICATION_ID and _tables(connection):
            raise sqlite3.DatabaseError("it is a database of something else")
        if owner != APPLICATION_ID:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("CREATE TABLE results (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")


def _tables(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def open_results(reuse_results: str | None, output_dir: Path) -> ResultStore | None:
    """
    Opens the store that the option `reuse_results` selects: `"run"` for one in the run's output folder, a path, or `None`.

    Raises:
        `ValueError`: The value is neither.
        `OSError`: The file cannot be a store.
    """
    if reuse_results is None:
        return None
    if not isinstance(reuse_results, str) or not reuse_results:  # `true` in a YAML
        raise ValueError(f"reuse_results must be `run` or the path of a file, got {reuse_results!r}")
    return ResultStore(output_dir / RUN_FILE if reuse_results == "run" else reuse_results)


def result_key(**depends_on: Any) -> str:
    """SHA-256 of everything that a program's result depends on, which must be JSON-compatible."""
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
