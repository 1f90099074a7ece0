"""The log of programs, as JSON lines, which training, `trl-mle evaluate` and `trl-mle solve` write."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trl_mle.models import Completion
from trl_mle.rewards.evaluation import Evaluation


FIELDS = [field.name for field in fields(Evaluation)]


@dataclass
class Sample:
    """A completion, the kind of its prompt, the index of the program that this shows or whose idea it varies, the idea
    that it asks for, and the evaluation, if any."""

    completion: Completion
    step: str = "scratch"
    parent: int | None = None
    idea: str | None = None
    evaluation: Evaluation | None = None


class ProgramLog:
    """
    A line for each program, written when it ends. A SIGKILL loses at most the last line.

    With `settings`, all that the completions depend on, completions have lines, too, written before their programs
    run, and `samples` holds all that was written, by competition and index. `contents` has the
    [`~trl_mle.competitions.content.content_digest`] of each competition, by its id. Raises `ValueError` if the file
    was made with other settings or contents, or cannot be read.
    """

    def __init__(self, path: Path, settings: dict[str, Any] | None = None, contents: Mapping[str, str] | None = None):
        self.path = path
        self.samples: dict[tuple[str, int], Sample] = {}
        self._settings = json.loads(json.dumps(settings))
        self._contents = contents or {}
        self._headings: dict[str, dict[str, Any]] = {}  # of each competition with completions
        cut_last_line(path)
        last_s = 0.0 if settings is None else self._resume()
        self._started = time.monotonic() - last_s

    def _resume(self) -> float:
        """Reads the file; returns the time of its last line, in seconds of the log."""
        rows, problems = read_lines(self.path)
        if problems:
            raise ValueError(f"{problems[0]}: fix or remove it")
        last_s = 0.0
        for row in rows:
            if "settings" in row:
                self._headings[row["competition"]] = row
            key = row.get("competition", ""), row.get("index", 0)
            self._check(key[0])
            if "text" in row:
                completion = Completion(row["text"], row["tokens"], row["prompt_tokens"])
                self.samples[key] = Sample(completion, row["step"], row["parent"], row["idea"])
            elif "outcome" in row:
                self.samples[key].evaluation = Evaluation.from_dict({name: row[name] for name in FIELDS})
            last_s = max(last_s, row.get("elapsed_s", 0.0))
        return last_s

    def _check(self, competition: str) -> None:
        heading = self._headings.get(competition, {"settings": {}, "content": None})
        before, now = heading["settings"], self._settings
        changed = sorted(name for name in before | now if before.get(name) != now.get(name))
        if not changed and self._contents.get(competition, heading["content"]) != heading["content"]:
            changed = [f"content of {competition}"]
        if changed or competition not in self._headings:
            what = ", ".join(changed)
            raise ValueError(f"{self.path} was made with other settings ({what}): use another output_dir")

    def now(self) -> float:
        """Seconds that the evaluation has taken, without the time between an interruption and its resumption."""
        return time.monotonic() - self._started

    def add_completions(self, competition: str, samples: Mapping[int, Sample]) -> None:
        if not samples:
            return
        rows: list[dict[str, Any]] = []
        if competition not in self._headings:
            content = self._contents.get(competition)
            self._headings[competition] = {"competition": competition, "settings": self._settings, "content": content}
            rows.append(self._headings[competition])
        for index, sample in samples.items():
            self.samples[competition, index] = sample
            rows.append({"competition": competition} | self._fields(index, sample) | asdict(sample.completion))
        self._write(rows)

    def add_evaluation(self, competition: str, index: int, evaluation: Evaluation) -> None:
        """Adds the evaluation of a completion, unless our infrastructure failed: it is retried later."""
        if evaluation.reward is not None:
            sample = self.samples[competition, index]
            sample.evaluation = evaluation
            self.append(competition, evaluation, **self._fields(index, sample))

    def append(self, competition: str, evaluation: Evaluation, **more: Any) -> None:
        """Adds a line for a program that has ended, with more fields, which must be JSON-compatible."""
        self._write([{"time": datetime.now(UTC).isoformat(), "competition": competition} | more | asdict(evaluation)])

    def _fields(self, index: int, sample: Sample) -> dict[str, Any]:
        fields = {"index": index, "step": sample.step, "parent": sample.parent, "idea": sample.idea}
        return fields | {"elapsed_s": self.now()}

    def _write(self, rows: Iterable[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The whole lines of a file of JSON mappings, and a note on each that is none."""
    rows, problems = [], []
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            problems.append(f"{path}, line {number}, is not a JSON mapping ({error})")
    return rows, problems


def cut_last_line(path: Path) -> None:
    """Removes a last line that a kill or a full disk has truncated."""
    if path.is_file():
        content = path.read_bytes()
        if (whole := content.rfind(b"\n") + 1) < len(content):
            os.truncate(path, whole)
