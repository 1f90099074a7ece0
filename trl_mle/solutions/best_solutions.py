"""The best solution of each competition, as files."""

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

from trl_mle.competitions import Competition, Score


# Suffixes of a competition's folder for a solution being written, and for the solution that it replaces
UNFINISHED = (".new", ".old")


class BestSolutions:
    """
    Keeps the best solution of each competition in `<folder>/<slug>/`: `solution.py`, `submission.csv`, and
    `score.json`. If a competition holds rows out, `score` is on the other rows and decides which solution is best.

    Several processes of a machine may offer solutions. The three files always belong together, even if one is killed:
    a new solution is written to `<slug>.new/`, which replaces the old folder once it is complete.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def offer(self, competition: Competition, source: str, submission: bytes, score: Score) -> bool:
        """Keeps a valid solution if it is the first or better, and returns whether it is kept."""
        assert score.value is not None
        best, new, old = (self.folder / f"{competition.slug}{suffix}" for suffix in ("", *UNFINISHED))
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, at the latest when the process ends
            if old.exists() and not best.exists():  # killed between the two renames below
                new.rename(best)
            current = self._record(competition)
            if current is not None and not competition.better(score.value, current["score"]):
                return False
            for leftover in (new, old):
                shutil.rmtree(leftover, ignore_errors=True)
            new.mkdir()
            (new / "solution.py").write_text(source, encoding="utf-8", errors="backslashreplace")
            (new / "submission.csv").write_bytes(submission)
            record = {
                "competition": competition.id,
                "metric": competition.metric,
                "higher_is_better": competition.higher_is_better,
                "score": score.value,
            }
            if score.held_out is not None:
                record |= {"holdout": competition.holdout, "held_out": score.held_out, "full": score.full}
            (new / "score.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            if best.exists():
                best.rename(old)
            new.rename(best)
            shutil.rmtree(old, ignore_errors=True)
        return True

    def read(self, competition: Competition) -> tuple[float, float, str] | None:
        """The best solution's score, its score for reports, and its program; `None` if there is none, if its program
        is missing, or if it was scored on other rows."""
        record = self._record(competition)
        program = self.folder / competition.slug / "solution.py"
        if record is None or record["competition"] != competition.id or not program.is_file():
            return None
        source = program.read_text(encoding="utf-8", errors="replace")
        return record["score"], record.get("held_out", record["score"]), source

    def _record(self, competition: Competition) -> dict[str, Any] | None:
        """What `score.json` holds; `None` if it is missing, left empty by a power cut, or of other rows."""
        try:
            record = json.loads((self.folder / competition.slug / "score.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return record if record.get("holdout", 0.0) == competition.holdout else None
