"""Where a program failed, by the traceback with which it ended."""

import ast
import re

from trl_mle.execution import ExecutionResult, Outcome
from trl_mle.execution.program import split_lines
from trl_mle.instrumentation.milestones import parse


# A program's own traceback begins at its top level: not so those of threads, of other processes and of what is ignored
_BEGINNING = re.compile(
    r"^(?:Traceback|  \+ Exception Group Traceback) \(most recent call last\):\n"
    r'(?=(?P<bar>  \| )?  File "(?P<path>[^"\n]*/solution\.py)", line \d+, in <module>$)',
    re.MULTILINE,
)
_FRAME = re.compile(r'  File "(?P<path>[^"\n]*+)", line (?P<line>[0-9]{1,9}), in ')


def failed_line(source: str, result: ExecutionResult) -> int | None:
    """
    The largest line of a program that the tracebacks name with which it failed: what lies behind it was not reached.

    All tracebacks count that begin at the program's top level. So text that a program makes look like one, in the message of its
    exception, say, cannot hide a line that the real one names. A program that prints one and exits with 1 is believed: many
    programs report their failure that way.

    Args:
        source (`str`):
            The program as the policy wrote it, whose lines tracebacks name.
        result ([`~trl_mle.execution.ExecutionResult`]):
            What its execution came to.

    Returns:
        `int`, *optional*: From 1. `None` if the program did not end by an exception, or has not begun: it does not compile.
    """
    if result.exit_code != 1 or result.outcome not in (Outcome.ERROR, Outcome.OUT_OF_MEMORY):
        return None
    last = len(split_lines(source))
    named = [line for line in _named_lines(result.stderr) if 1 <= line <= last]
    return max(named, default=None)


def _named_lines(stderr: str) -> list[int]:
    """The lines of the program in all its tracebacks. Each line is looked at twice at most, however many of them begin there."""
    named = []
    for bar in ("", "  | "):
        begins = {match.end(): match["path"] for match in _BEGINNING.finditer(stderr) if (match["bar"] or "") == bar}
        seen = 0
        for place in begins:
            if place < seen:
                continue
            paths = set()
            # Frames and their code are indented, what is said of the exception is not
            while stderr.startswith(f"{bar}  ", place):
                if place in begins:
                    paths.add(begins[place])
                frame = _FRAME.match(stderr, place + len(bar))
                if frame and frame["path"] in paths:
                    named.append(int(frame["line"]))
                place = stderr.find("\n", place) + 1 or len(stderr)
            seen = place
    return named


def same_line(line: int | None, source: str | None, other: str | None) -> int | None:
    """
    The line of an equal program, with other comments and layout, that stands for a line of a program.

    Args:
        line (`int`, *optional*):
            From 1.
        source (`str`, *optional*), other (`str`, *optional*):
            Two programs with the same syntax tree.

    Returns:
        `int`, *optional*: From 1; the last one, where several do. `None` if there is none.
    """
    if line is None or source is None or other is None or source == other:
        return line
    try:
        pairs = zip(ast.walk(parse(source)), ast.walk(parse(other)), strict=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return max((_line(twin) for node, twin in pairs if _line(node) == line), default=None)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
