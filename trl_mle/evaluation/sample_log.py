"""Logs sampled programs and their evaluations to files, from which an interrupted evaluation resumes."""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trl_mle.models import Completion
from trl_mle.rewards import Evaluation


@dataclass(frozen=True)
class Sample:
    """
    Identifies a completion of a policy.

    Args:
        competition (`str`):
            Id of the competition.
        round (`str`):
            `"scratch"`, `"improve"` (of the sample from scratch with the same index) or `"solve"`.
        index (`int`):
            Its number in the round, from 0.
    """

    competition: str
    round: str
    index: int


@dataclass(frozen=True)
class Written:
    """A completion and its cost."""

    text: str
    tokens: int
    prompt_tokens: int
    step: str  # kind of the prompt: "scratch", "improve" or "debug"
    parent: int | None = None  # index of the program shown in the prompt


class SampleLog:
    """
    The completions of one policy and their evaluations, as JSON lines: completions in `completions/<name>.jsonl`,
    evaluations in `<name>.jsonl`. Both are written as soon as they are available. Entries that exist when a log is
    opened are not sampled or executed again. A SIGKILL loses the batch of completions being sampled and the running
    programs.

    Args:
        path (`Path`):
            `<name>.jsonl`.
        settings (`dict`):
            All settings that the completions depend on.
        contents (`Mapping[str, str]`, *optional*):
            The [`~trl_mle.competitions.content.content_digest`] of each competition, by its id. Those that have completions must not
            change; others may be added.

    Raises:
        `ValueError`: Existing files were made with other settings or contents, or cannot be read.
    """

    def __init__(self, path: Path, settings: dict[str, Any], contents: Mapping[str, str] | None = None):
        self.path = path
        self._completions_path = path.parent / "completions" / path.name
        self._completions_path.parent.mkdir(parents=True, exist_ok=True)
        self.written: dict[Sample, Written] = {}
        self.evaluations: dict[Sample, Evaluation] = {}

        rows = _read(self._completions_path)
        completions = [row for row in rows if "competition" in row]
        headings = [row for row in rows if "competition" not in row]
        wanted = json.loads(json.dumps(settings))
        # Written with the first completions, so that a call that fails earlier leaves no file behind
        self._heading = {} if headings else {"settings": wanted}
        found = headings[0]["settings"] if headings else {} if completions or path.exists() else wanted
        changed = sorted(name for name in {*found, *wanted} if name not in found or found[name] != wanted.get(name))
        known = {name: digest for row in headings for name, digest in row.get("contents", {}).items()}
        contents = contents or {}
        if not changed:  # of which some, such as holdout, are in a digest, too
            changed = [f"content of {name}" for name in contents if known.get(name, contents[name]) != contents[name]]
        self._contents = {name: contents[name] for name in contents if name not in known}  # to be written, too
        if changed:
            raise ValueError(
                f"{path} was made with other settings ({', '.join(changed)}): remove it and {self._completions_path}, or use another output_dir"
            )
        last = 0.0
        for row in completions:
            sample, last = _pop_sample(row), max(last, row.pop("elapsed_s"))
            self.written[sample] = Written(**row)
        for row in _read(path):
            sample, last = _pop_sample(row), max(last, row.pop("elapsed_s"))
            self.evaluations[sample] = _evaluation(row)
        self._started = time.monotonic() - last

    def now(self) -> float:
        """Seconds that the evaluation has taken, without the time between an interruption and its resumption."""
        return time.monotonic() - self._started

    def add_completions(
        self,
        samples: Sequence[Sample],
        completions: Sequence[Completion],
        step: str,
        parents: Sequence[int | None],
    ) -> None:
        """Adds a batch of completions; those without an answer are left out."""
        ended_s, rows = self.now(), []
        for sample, completion, parent in zip(samples, completions, parents, strict=True):
            if completion.text is None:
                continue
            self.written[sample] = Written(completion.text, completion.tokens, completion.prompt_tokens, step, parent)
            rows.append(asdict(sample) | {"elapsed_s": ended_s} | asdict(self.written[sample]))
        if rows:
            if new := {row["competition"] for row in rows} & self._contents.keys():
                self._heading["contents"] = {name: self._contents.pop(name) for name in sorted(new)}
            _append(self._completions_path, [self._heading, *rows] if self._heading else rows)
            self._heading = {}

    def add_evaluation(self, sample: Sample, evaluation: Evaluation) -> None:
        """Adds an evaluation, unless it is a failure of our infrastructure, which is retried later."""
        if evaluation.reward is None:
            return
        self.evaluations[sample] = evaluation
        written = asdict(self.written[sample])
        del written["text"]  # it adds only a plan to `source`
        row = asdict(sample) | {"elapsed_s": self.now()} | written | asdict(evaluation)
        _append(self.path, [row])


def _pop_sample(row: dict[str, Any]) -> Sample:
    return Sample(row.pop("competition"), row.pop("round"), row.pop("index"))


def _evaluation(row: dict[str, Any]) -> Evaluation:
    for name in ("tokens", "prompt_tokens", "step", "parent"):  # of the completion
        del row[name]
    return Evaluation.from_dict(row)


def _read(path: Path) -> list[dict[str, Any]]:
    """Reads the rows of a file; removes an incomplete last line."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}, is not JSON: fix or remove it ({error})") from error
    return rows


def _append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
