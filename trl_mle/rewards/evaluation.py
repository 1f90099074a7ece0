"""The result of one completion."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_mle.competitions import Score
from trl_mle.execution import Outcome
from trl_mle.showing import shorten
from trl_mle.solutions.pool import syntax_tree_id


NO_CODE = "no_code"  # in addition to the executor's outcomes: nothing to execute
OUTPUT_CHARS = 4000  # characters of a program's output in the completions table and in improve prompts


@dataclass(frozen=True)
class Evaluation:
    """The result of one completion."""

    reward: float | None  # `None` if our infrastructure failed twice, so that the completion could not be judged
    duration_s: float | None = None  # Δt of its program; `None` without a program
    score: Score | None = None  # of its submission; `None` if the program failed
    outcome: str | None = NO_CODE  # an `Outcome` equals its name; `None` if another reward function does not say
    milestones: tuple[str, ...] = ()  # that were reached, in order
    output: str = ""  # of the program, errors last; bounded
    source: str | None = None  # the program as the policy wrote it
    detail: str = ""  # reason for the failure, in one line
    cpu_s: float | None = None  # compared with Δt, it distinguishes work from waiting
    queue_wait_s: float | None = None  # for a slot
    quality: float | None = None  # a valid score, its sign flipped where lower is better; not clipped by a floor
    reused: bool | None = None  # whether the result is that of an equal program; `None` if every program is executed

    @property
    def valid(self) -> bool:
        """Whether there is a valid submission."""
        return self.score is not None and self.score.valid

    @property
    def infrastructure_failed(self) -> bool:
        return self.outcome == Outcome.INFRASTRUCTURE

    @property
    def program_id(self) -> str | None:
        """The same for all programs with the same syntax tree; `None` without a program."""
        return None if self.source is None else syntax_tree_id(self.source)

    def shortened(self) -> "Evaluation":
        """The same with as much of the output as is used later: what processes send each other is bounded."""
        return replace(self, output=cut_middle(self.output))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Evaluation":
        """Restores an evaluation from `dataclasses.asdict` and JSON."""
        score = None if fields["score"] is None else Score(**fields["score"])
        return cls(**(fields | {"score": score, "milestones": tuple(fields["milestones"])}))


def columns_of(evaluations: Sequence[Evaluation]) -> dict[str, list[Any]]:
    """Evaluations as columns of TRL's completions table, which people read; if equal programs run once, `reused`,
    too."""
    columns: dict[str, list[Any]] = {
        "duration_s": [item.duration_s for item in evaluations],
        "outcome": [str(item.outcome) for item in evaluations],
        "valid": [item.valid for item in evaluations],
        "score": [item.score.value if item.score else None for item in evaluations],
        "quality": [item.quality for item in evaluations],
        "milestones": [",".join(item.milestones) for item in evaluations],
        "cpu_s": [item.cpu_s for item in evaluations],
        "queue_wait_s": [item.queue_wait_s for item in evaluations],
        "output": [item.shortened().output for item in evaluations],
    }
    if any(item.reused is not None for item in evaluations):
        columns["reused"] = [item.reused for item in evaluations]
    return columns


def cut_middle(text: str, max_chars: int = OUTPUT_CHARS) -> str:
    """Shortens a text by leaving out whole lines from its middle, and the middle of a last line that is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2 - 1  # room for the separator
    before, line_break, last = text.rstrip("\n").rpartition("\n")
    if len(last) >= half:  # its start names the error
        text = f"{before}{line_break}{last[: half // 2 - 1]}…{last[1 - half // 2 :]}"
        if len(text) <= max_chars:
            return text
    head = text[:half].rpartition("\n")[0] or text[:half]
    tail = text[-half:].partition("\n")[2]
    return "\n".join(part for part in (head, "…", tail) if part)


def kind_of_failure(outcome: str, detail: str) -> str:
    """Why a program has no valid submission, without the names and numbers that differ between programs."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", detail)
    text = re.sub(r"U\+[0-9A-F]+", "U+…", text)  # a character that cannot be shown
    text = re.sub(r"0x[0-9a-f]+|((?<!\w)[-+])?\d+([.,]\d+)*(e[-+]?\d+)?", "N", text)
    text = shorten(re.sub(r" \(/[^)]*\)?", "", text), 90)  # without paths of modules
    if outcome == "ok":
        return f"no valid submission: {text or 'reason unknown'}"
    return text if outcome == "error" and text else f"{outcome.replace('_', ' ')}: {text}".rstrip(": ")
