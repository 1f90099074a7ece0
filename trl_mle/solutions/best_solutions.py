"""The best solution of each competition, as files."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trl_mle.competitions import Competition


# Suffixes of a competition's folder for a solution being written, and for the solution that it replaces
UNFINISHED = (".new", ".old")


class BestSolutions:
    """
    Keeps the best solution of each competition in `<folder>/<slug>/`: `solution.py`, its `submission.csv`, and
    `score.json` with the SHA-256 of both and the score on the hidden answers. If a competition holds rows out, `score` is on
    the other rows and decides which solution is best; `held_out` and `full` are for reports.

    Several processes of a machine may offer solutions at the same time. The three files always belong together, even if a
    process is killed: a new solution is written to `<slug>.new/`, which replaces the old folder once it is complete. If a
    process is killed in between, the next offer finishes the replacement.

    Args:
        folder (`Path`):
            Folder for the solutions, created with the first one.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def offer(
        self,
        competition: Competition,
        source: str,
        submission: bytes,
        score: float,
        held_out: float | None = None,
        full: float | None = None,
    ) -> bool:
        """
        Keeps a solution if it is the first, or better than the current one by `score`, and returns whether it is kept.
        `held_out` and `full` are its scores on the held-out rows and on all rows, if some are held out.
        """
        best, new, old = (self.folder / f"{competition.slug}{suffix}" for suffix in ("", *UNFINISHED))
        with self._locked():
            if old.exists() and not best.exists():  # killed between the two renames below
                new.rename(best)
            known = _score(best / "score.json", competition.holdout)
            if known is not None and not competition.better(score, known):
                return False
            for leftover in (new, old):
                shutil.rmtree(leftover, ignore_errors=True)
            program = source.encode("utf-8", errors="backslashreplace")
            new.mkdir()
            (new / "solution.py").write_bytes(program)
            (new / "submission.csv").write_bytes(submission)
            record = {
                "competition": competition.id,
                "metric": competition.metric,
                "higher_is_better": competition.higher_is_better,
                "score": score,
                **({} if held_out is None else {"holdout": competition.holdout, "held_out": held_out, "full": full}),
                "solution_sha256": hashlib.sha256(program).hexdigest(),
                "submission_sha256": hashlib.sha256(submission).hexdigest(),
            }
            (new / "score.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            if best.exists():
                best.rename(old)
            new.rename(best)
            shutil.rmtree(old, ignore_errors=True)
        return True

    def read(self, competition: Competition) -> tuple[float, float, str] | None:
        """
        The best solution's score, its score for reports, and its program; `None` if there is none, if its program is missing, or if
        it was scored on other rows.
        """
        folder = self.folder / competition.slug
        record = _record(folder / "score.json", competition.holdout)
        if record is None or record["competition"] != competition.id:
            return None
        try:
            source = (folder / "solution.py").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        return record["score"], record.get("held_out", record["score"]), source

    def wants(self, competition: Competition, score: float) -> bool:
        """Whether a solution with this score would be kept."""
        best, _, old = (self.folder / f"{competition.slug}{suffix}" for suffix in ("", *UNFINISHED))
        known = _score((best if best.exists() else old) / "score.json", competition.holdout)
        return known is None or competition.better(score, known)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, at the latest when the process ends
            yield


def _record(path: Path, holdout: float) -> dict[str, Any] | None:
    """What the file holds; `None` if it is missing, was left empty by a power cut, or its score is on other rows."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return record if record.get("holdout", 0.0) == holdout else None


def _score(path: Path, holdout: float) -> float | None:
    record = _record(path, holdout)
    return None if record is None else float(record["score"])
