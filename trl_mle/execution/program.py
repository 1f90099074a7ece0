"""A program as it is executed: its source, what an instrumenter adds to it, and what it may use."""

import io
import re
from collections import Counter
from dataclasses import dataclass


def split_lines(source: str) -> list[str]:
    """
    Lines with their ends, counted as Python counts them: at `\\n`, `\\r\\n` and `\\r`. `str.splitlines` also splits at
    form feeds and others.
    """
    return list(io.StringIO(source, newline=""))


@dataclass(frozen=True)
class InstrumentedProgram:
    """
    A program with prints that mark the milestones it reaches (https://huggingface.co/papers/2509.01684), and report
    shapes and scores that it has computed.

    Every print has lines of its own: `source` without the lines `inserted_lines` is `original`, line by line. The
    executor runs `source` while the file on disk and the tracebacks show `original`.

    Args:
        source (`str`):
            The program with prints.
        original (`str`):
            The program as the policy wrote it.
        milestones (`tuple[str, ...]`):
            The milestones for which a print was placed, in the order of `trl_mle.instrumentation.MILESTONES`.
        nonce (`str`):
            Random text in every marker, unknown to the policy when it writes. A program that inspects its own running
            code (frames, the garbage collector, its memory) can find it and print markers of steps that it has but does
            not reach, in an order in which it could reach them; that is worth at most the partial credit of a failure,
            and stays below every valid submission.
        is_final (`bool`, *optional*, defaults to `True`):
            Whether the instrumenter would place the same prints again; not so if its model has not answered.
    """

    source: str
    original: str
    milestones: tuple[str, ...]
    nonce: str
    is_final: bool = True

    @property
    def inserted_lines(self) -> tuple[int, ...]:
        """Line numbers, from 1 and in ascending order, of the prints in `source`."""
        if not self.nonce:
            return ()
        return tuple(number for number, line in enumerate(split_lines(self.source), 1) if self.nonce in line)

    def reached(self, output: str) -> set[str]:
        """
        The milestones whose markers are in the output. A marker may stand in the middle of a line: the program may
        have printed without a newline before it. One counts only if its print was placed, and behind the markers of all
        prints that must have run before it.
        """
        before = self._before()
        found: set[str] = set()
        for milestone in re.findall(rf"{re.escape(self.nonce)} milestone: (\w+)", output):
            if milestone not in found and any(needed <= found for needed in before.get(milestone, ())):
                found.add(milestone)
        return found

    def _before(self) -> dict[str, list[set[str]]]:
        """
        For each print of a milestone those that stand before it in its block or in one around it: nothing jumps over them.
        A block ends at the first line that is indented less; one within a string only makes this ask for less.
        """
        before: dict[str, list[set[str]]] = {milestone: [] for milestone in self.milestones}
        around: list[tuple[str, str]] = []  # indentation and milestone
        for line in split_lines(self.source) if self.milestones else ():
            if not (text := line.strip()):
                continue
            while around and not line.startswith(around[-1][0]):
                around.pop()
            marker = re.match(rf'print\("{re.escape(self.nonce)} milestone: (\w+)"', text)
            if marker is not None and marker[1] in before:
                before[marker[1]].append({milestone for _, milestone in around} - {marker[1]})
                around.append((line[: line.index(text)], marker[1]))
        return before

    def reports(self, output: str) -> list[tuple[str, str]]:
        """
        The names and printed values of the reports in the output, in its order, as many of a name as were placed. What
        the program itself prints in their form lacks the nonce, and does not count.
        """
        report = rf"{re.escape(self.nonce)} report: ([\w.]+) = "
        left = Counter(re.findall(report, self.source))
        found = []
        for name, value in re.findall(report + "(.{0,80})", output):
            if left[name] > 0:
                left[name] -= 1
                found.append((name, value))
        return found


Program = str | InstrumentedProgram

# What every sandbox has, by the names that programs import.
REQUIRED = ("numpy", "pandas", "scipy", "sklearn", "PIL")
# What some have besides, in the order in which prompts name them.
OPTIONAL = ("xgboost", "lightgbm", "torch", "torchvision", "transformers", "nltk")


@dataclass(frozen=True)
class Limits:
    """
    What a program may use: executors enforce it, and prompts state it.

    Args:
        timeout_s (`float`, *optional*, defaults to `60.0`):
            Wall-clock limit in seconds.
        memory_mb (`int`, *optional*, defaults to `4096`):
            Memory limit in MB.
        threads (`int`, *optional*, defaults to `1`):
            Cores.
        packages (`tuple[str, ...]`, *optional*):
            Those of `REQUIRED` and `OPTIONAL` that it can import inside the sandbox, in their order, by the names that programs
            import. Defaults to the usual ones: numpy, pandas, scipy, scikit-learn and pillow.
    """

    timeout_s: float = 60.0
    memory_mb: int = 4096
    threads: int = 1
    packages: tuple[str, ...] = REQUIRED
