"""An environment for one agent on one competition."""

import math
import re
import threading
import time
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.execution import Outcome, SandboxError
from trl_mle.prompts import given_program, plain_text
from trl_mle.rewards import Evaluation, MLEReward, PendingEvaluation, cut_middle


POLL_S = 0.2
ANSWER_CHARS = 2000  # of a tool's answer
LINE_CHARS = 400  # shown per line
READ_BYTES = 16 << 20  # read of a file, to find a line
FAILED = "the machine failed, not the program: start it again"
LOCK = threading.Lock()  # for this process's rewards: some trainers call tools in threads


class MLEEnvironment:
    """
    An environment for TRL: its public methods except `reset` are the agent's tools.

    Programs run in the reward's executor and its sandbox. TRL calls the tools of one rollout after those of another, so
    `start_program` returns at once: the programs of a whole batch run side by side while the policy continues to write,
    and `wait_for_program` usually finds them finished.

    Args:
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades the programs.
        max_programs (`int`, *optional*, defaults to `4`):
            Maximum number of programs per episode.
    """

    def __init__(self, reward: MLEReward, max_programs: int = 4):
        self._reward = reward
        self._max_programs = max_programs
        self._competition: Competition | None = None
        self._pending: list[PendingEvaluation] = []

    def reset(self, competition: str, **row: Any) -> None:
        """Starts an episode in the competition that the dataset's row names; its other columns are ignored."""
        self._reward.check_known([competition])
        self._close()
        self._competition, self._pending = self._reward.competitions[competition], []

    def read_file(self, path: str, first_line: int = 1, lines: int = 20) -> str:
        """
        Read lines of a text file that programs see in input/, or list a folder.

        Args:
            path: The file or folder, such as "train.csv"; "." is input/ itself.
            first_line: Number of the first line to read, from 1.
            lines: How many lines to read.

        Returns:
            The lines, or the names in the folder with their sizes in bytes.
        """
        folder = self._running.public_dir.resolve()
        name = re.sub(r"^(\./|/)*(input(/+|$))?", "", str(path).strip())
        try:
            file = (folder / name).resolve(strict=True)
        except OSError:
            file = Path("/")
        if not file.is_relative_to(folder):
            raise ValueError(f"input/ holds no {path!r}: list it with '.'")
        if file.is_dir():
            entries = [
                entry for entry in sorted(file.iterdir()) if entry.resolve().is_relative_to(folder) and entry.exists()
            ]
            shown = [
                f"{entry.name}/" if entry.is_dir() else f"{entry.name} {entry.stat().st_size}"
                for entry in entries[:100]
            ]
            return plain_text("\n".join([*shown, *[f"… {len(entries) - 100} more"] * (len(entries) > 100)]))
        return _cut(_lines(file, max(1, int(first_line)), max(1, int(lines))))

    def start_program(self, program: str) -> str:
        """
        Start a Python program that reads input/ and writes submission.csv. It returns at once: wait_for_program shows what came
        out. The last program that you start is the one that counts.

        Args:
            program: The whole source of the program.

        Returns:
            Which program it is.
        """
        self._pending = [pending for pending in self._pending if not _infrastructure_failed(pending)]
        if len(self._pending) == self._max_programs:
            raise ValueError(f"all {self._max_programs} programs of this task have been started")
        try:
            self._pending += start(self._reward, str(program), self._running)
        except (OSError, SandboxError):
            self._pending.append(PendingEvaluation(Evaluation(None, outcome=Outcome.INFRASTRUCTURE)))
            return FAILED
        return f"program {len(self._pending)} of {self._max_programs} runs"

    def wait_for_program(self) -> str:
        """
        Wait until the program that was started last has ended.

        Returns:
            Whether its submission is valid, how long it ran, and what it printed.
        """
        if not self._pending:
            raise ValueError("no program has been started")
        evaluation = finished(self._pending[-1])
        assert evaluation is not None
        if evaluation.infrastructure_failed:
            return FAILED
        ended = f"valid submission after {evaluation.duration_s:.1f} s"
        if not evaluation.valid:
            ran = "" if evaluation.duration_s is None else f" after {evaluation.duration_s:.1f} s"
            ended = f"no valid submission{ran}: {evaluation.detail}"
        return _cut(f"{ended}\n\n{evaluation.output}".strip())

    def _episode(self) -> Evaluation:
        """The evaluation of the last program, with the total duration of all programs; waits for running programs."""
        evaluations = [evaluation for pending in self._pending if (evaluation := finished(pending)) is not None]
        if not evaluations:
            return Evaluation(self._reward.fail_reward, detail="no program was started")
        seconds = [evaluation.duration_s for evaluation in evaluations if evaluation.duration_s is not None]
        return replace(evaluations[-1], duration_s=sum(seconds) if seconds else None)

    def _close(self) -> None:
        """Ends running programs, whose results are not needed."""
        for pending in self._pending:
            self._reward.stop(pending)

    @property
    def _running(self) -> Competition:
        if self._competition is None:
            raise ValueError("reset has not named a competition yet")
        return self._competition


class ScoredMLEEnvironment(MLEEnvironment):
    """An environment that computes its own reward, for trainers whose reward functions get no environments."""

    def get_reward(self) -> float | None:
        """The reward of the last program; `None` if our infrastructure failed."""
        return self._episode().reward


def start(reward: MLEReward, program: str, competition: Competition) -> list[PendingEvaluation]:
    """Queues a text as a program."""
    source = given_program(program)
    with LOCK:
        return reward.submit_programs([(source, competition)])


def finished(pending: PendingEvaluation, until: float = math.inf) -> Evaluation | None:
    """Waits for a program until a `time.monotonic()` time; returns `None` if it is still running."""
    while True:
        with LOCK:  # it can be graded and recorded now
            if pending.poll():
                return pending.result()
        if (left := until - time.monotonic()) <= 0:
            return None
        wait([pending.awaited], timeout=min(left, POLL_S))


def _infrastructure_failed(pending: PendingEvaluation) -> bool:
    """Whether it ended because our infrastructure failed; such a program does not count."""
    evaluation = finished(pending, until=0.0)
    return evaluation is not None and evaluation.infrastructure_failed


def _cut(text: str) -> str:
    return plain_text(cut_middle(text, ANSWER_CHARS))


def _lines(file: Path, first: int, count: int) -> str:
    """Reads lines from `first` on, within the file's first megabytes and the character limit."""
    with open(file, "rb") as content:
        lines = content.read(READ_BYTES).split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        del lines[-1]
    if first > len(lines):
        raise ValueError(f"{file.name} has {len(lines)} lines, as far as it is read: look further by a program")
    if b"\0" in b"".join(lines[first - 1 : first + 9]):
        raise ValueError(f"{file.name} is no text file")
    found: list[str] = []
    for line in lines[first - 1 : first - 1 + count]:
        text = line[: 4 * LINE_CHARS].decode(errors="replace").rstrip("\r")
        found.append(text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…")
        if sum(map(len, found)) > ANSWER_CHARS:
            break
    return "\n".join(found)
