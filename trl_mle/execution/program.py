"""A program for execution: its source, its instrumentation and its limits."""

import ast
import functools
import io
import re
import warnings
from dataclasses import dataclass


# Limits of a program that is analysed outside the sandbox; solutions have hundreds of nodes, 20 levels
MAX_LENGTH = 50_000  # characters: Python's parser takes the square of the time for some texts
MAX_NODES = 10_000  # of the syntax tree: an instrumenter can take the square of the time
MAX_DEPTH = 100  # of the syntax tree, so that recursive functions can follow it
MAX_BITS = 2_000  # of a whole number: Python refuses to print one of more than 4,300 digits
_LONG_NAME = re.compile(rf"(?:\.[\s\\]*+\w++[\s\\]*+){{{MAX_DEPTH}}}")  # the parser copies it at each dot of an import

# The compiler names this file in its warnings, of which policies cause thousands
FILENAME = "<program>"
warnings.filterwarnings("ignore", module=re.escape(FILENAME))


class ProgramError(ValueError):
    """A text cannot be analysed as a program: a fact about that program, and never a failure of ours."""

    def __init__(self, message: str, line: int = 1):
        super().__init__(message)
        self.line = line  # the first that is no Python


def parse_program(source: str) -> ast.Module:
    """The syntax tree of a text from outside, which any function can follow; do not modify it. Raises [`ProgramError`]
    if it is no Python, or too large, too deep or too odd to be analysed."""
    found = _parsed(source)
    if isinstance(found, ProgramError):
        raise ProgramError(str(found), found.line)  # a new one: each that is raised collects a traceback
    return found


@functools.lru_cache(maxsize=4)  # choosing places, checking them and inserting prints all parse the same program
def _parsed(source: str) -> ast.Module | ProgramError:
    if len(source) > MAX_LENGTH:
        return ProgramError(f"the program has more than {MAX_LENGTH} characters")
    if _LONG_NAME.search(source):
        return ProgramError(f"the program has a name of more than {MAX_DEPTH} parts")
    try:
        tree = ast.parse(source.removeprefix("\ufeff"), filename=FILENAME)
    except SyntaxError as error:
        return ProgramError(str(error), error.lineno or 1)
    except (ValueError, RecursionError, MemoryError) as error:  # NUL, half a character, or nested too deeply
        return ProgramError(str(error) or type(error).__name__)
    nodes, depth = 0, 0
    level: list[ast.AST] = [tree]
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            return ProgramError(f"the program's syntax tree has more than {MAX_NODES} nodes or {MAX_DEPTH} levels")
        for node in level:
            if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > MAX_BITS:
                return ProgramError(f"the program has a whole number of more than {MAX_BITS} bits", node.lineno)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return tree


def split_lines(source: str) -> list[str]:
    r"""Splits lines as Python does, at `\n`, `\r\n` and `\r`, and keeps their ends. `str.splitlines` also splits at
    form feeds."""
    return list(io.StringIO(source, newline=""))


@dataclass(frozen=True)
class InstrumentedProgram:
    """
    A program with prints that mark the milestones it reaches (https://huggingface.co/papers/2509.01684).

    `source` without the lines `inserted_lines` equals `original`. The executor runs `source`, while the file on disk
    and the tracebacks show `original`.

    Args:
        source (`str`), original (`str`):
            The program with prints, and as the policy wrote it.
        milestones (`tuple[str, ...]`):
            The milestones with a print, in the order of `trl_mle.instrumentation.MILESTONES`.
        nonce (`str`):
            Random text in every marker, unknown to the policy when it writes (see SECURITY.md).
    """

    source: str
    original: str
    milestones: tuple[str, ...]
    nonce: str

    @property
    def inserted_lines(self) -> tuple[int, ...]:
        """Line numbers, from 1 and in ascending order, of the prints in `source`."""
        if not self.nonce:
            return ()
        return tuple(number for number, line in enumerate(split_lines(self.source), 1) if self.nonce in line)

    def reached(self, output: str) -> set[str]:
        """The milestones whose markers are in the output. A marker counts only if its print was placed, and only after
        the markers of all prints that must have run before it."""
        before = self._before()
        found: set[str] = set()
        for milestone in re.findall(rf"{re.escape(self.nonce)} milestone: (\w+)", output):
            if milestone not in found and any(needed <= found for needed in before.get(milestone, ())):
                found.add(milestone)
        return found

    def _before(self) -> dict[str, list[set[str]]]:
        """For each milestone print, the prints before it in its block or in an enclosing block. A block ends at the
        first line with less indentation; such a line within a string only makes the check weaker."""
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


Program = str | InstrumentedProgram

# Packages in every sandbox, by import name
REQUIRED = ("numpy", "pandas", "scipy", "sklearn", "PIL")
# Further packages in some sandboxes, in the order in which prompts list them
OPTIONAL = ("xgboost", "lightgbm", "torch", "torchvision", "transformers", "nltk")


@dataclass(frozen=True)
class Limits:
    """
    Limits of a program: executors enforce them, and prompts state them.

    Args:
        timeout_s (`float`, *optional*, defaults to `60.0`), memory_mb (`int`, *optional*, defaults to `4096`):
            Wall-clock limit in seconds, and memory limit in MB.
        threads (`int`, *optional*, defaults to `1`):
            Number of cores.
        packages (`tuple[str, ...]`, *optional*):
            Packages of `REQUIRED` and `OPTIONAL` that it can import inside the sandbox. Defaults to the former.
    """

    timeout_s: float = 60.0
    memory_mb: int = 4096
    threads: int = 1
    packages: tuple[str, ...] = REQUIRED
