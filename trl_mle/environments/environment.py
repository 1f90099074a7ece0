"""An environment for one agent on one competition."""

import re
import threading
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.execution import Outcome, SandboxError
from trl_mle.prompts import given_program, plain_text
from trl_mle.rewards import Evaluation, MLEReward, PendingEvaluation, cut_middle


ANSWER_CHARS = 2000  # of a tool's answer
LINE_CHARS = 400  # shown per line
READ_CHARS = 16_000_000  # read of a file, to find a line
FAILED = "the machine failed, not the program: start it again"
LOCK = threading.Lock()  # for this process's rewards: some trainers call tools in threads


class MLEEnvironment:
    """
    An environment for TRL: its public methods except `reset` are the agent's tools.

    TRL calls the tools of one rollout after those of another, so `start_program` returns at once: the programs of a
    whole batch run side by side while the policy continues to write.

    Args:
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades the programs.
        max_programs (`int`, *optional*, defaults to `4`):
            Maximum number of programs per episode.
    """

    def __init__(self, reward: MLEReward, max_programs: int = 4):
        self._reward = reward
        self._max_programs = max_programs
        self._competition: Competition
        self._pending: list[PendingEvaluation] = []

    def reset(self, competition: str, **row: Any) -> None:
        """Starts an episode in the competition that the dataset's row names; its other columns are ignored."""
        self._reward.check_known([competition])
        for pending in self._pending:  # of an episode whose result nobody needs
            self._reward.stop(pending)
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
        folder = self._competition.public_dir.resolve()
        name = re.sub(r"^(\./|/)*(input(/+|$))?", "", str(path).strip())
        try:
            file = (folder / name).resolve(strict=True)
        except OSError:
            file = Path("/")
        if not file.is_relative_to(folder):
            raise ValueError(f"input/ holds no {path!r}: list it with '.'")
        if file.is_dir():
            items = [item for item in sorted(file.iterdir()) if item.resolve().is_relative_to(folder)]
            sizes = ("/" if item.is_dir() else f" {item.lstat().st_size}" for item in items)
            return _cut("\n".join(f"{item.name}{size}" for item, size in zip(items, sizes, strict=True)))
        return _cut(_lines(file, max(1, int(first_line)), max(1, int(lines))))

    def start_program(self, program: str) -> str:
        """
        Start a Python program that reads input/ and writes submission.csv. It returns at once: wait_for_program shows
        what came out. The last program that you start is the one that counts.

        Args:
            program: The whole source of the program.

        Returns:
            Which program it is.
        """
        # A program that our infrastructure failed does not count
        self._pending = [item for item in self._pending if not (_ended(item) and item.result().infrastructure_failed)]
        if len(self._pending) == self._max_programs:
            raise ValueError(f"all {self._max_programs} programs of this task have been started")
        try:
            with LOCK:
                self._pending += self._reward.submit_programs([(given_program(str(program)), self._competition)])
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
        evaluation = _result(self._pending[-1])
        if evaluation.infrastructure_failed:
            return FAILED
        ran = "" if evaluation.duration_s is None else f" after {evaluation.duration_s:.1f} s"
        ended = f"valid submission{ran}" if evaluation.valid else f"no valid submission{ran}: {evaluation.detail}"
        return _cut(f"{ended}\n\n{evaluation.output}".strip())

    def _episode(self) -> Evaluation:
        """The evaluation of the last program, with the total duration of all programs; waits for running programs."""
        evaluations = [_result(pending) for pending in self._pending]
        if not evaluations:
            return Evaluation(self._reward.fail_reward, detail="no program was started")
        seconds = [evaluation.duration_s for evaluation in evaluations if evaluation.duration_s is not None]
        return replace(evaluations[-1], duration_s=sum(seconds) if seconds else None)


class ScoredMLEEnvironment(MLEEnvironment):
    """An environment that computes its own reward, for trainers whose reward functions get no environments."""

    def get_reward(self) -> float | None:
        """The reward of the last program; `None` if our infrastructure failed."""
        return self._episode().reward


def _ended(pending: PendingEvaluation) -> bool:
    with LOCK:  # it may be graded and recorded now
        return pending.poll()


def _result(pending: PendingEvaluation) -> Evaluation:
    while not _ended(pending):
        wait([pending.awaited])
    return pending.result()


def _cut(text: str) -> str:
    return plain_text(cut_middle(text, ANSWER_CHARS))


def _lines(file: Path, first: int, count: int) -> str:
    with open(file, encoding="utf-8", errors="replace") as content:
        lines = content.read(READ_CHARS).removesuffix("\n").split("\n")
    shown = lines[first - 1 : first - 1 + count]
    if not shown:
        raise ValueError(f"{file.name} has {len(lines)} lines, as far as it is read: look further by a program")
    if any("\0" in line for line in shown):
        raise ValueError(f"{file.name} is no text file")
    return "\n".join(line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…" for line in shown)
