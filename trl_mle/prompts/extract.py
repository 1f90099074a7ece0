"""Taking the program out of a completion."""

import ast
import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from trl_mle.execution.program import parse_program


# A policy may write anything, and the training process reads it: no expression looks at a character more than a few times
_FENCE = re.compile(r"(?P<indent>[ \t]*+)(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`]*+)")
_FENCE_AFTER_TEXT = re.compile(r"(?<!`)(?P<mark>`{3,}+)[ \t]*+(python3?|py)[ \t]*+$", re.IGNORECASE)
_IMPORT = re.compile(r"import \w|from \S+ import ")
_PYTHON = {"python", "python3", "py"}
READS = 20  # times the length of a text without fences that Python may read in search of a program

Span = tuple[int, int]
# Where pieces of a text begin, in it and in another one, in ascending order; within a piece both have the same characters
Pieces = list[tuple[int, int]]


@dataclass(frozen=True)
class FoundCode:
    """
    A program, and where it stands in its completion.

    Attributes:
        source (`str`):
            The program.
        pieces (`list[tuple[int, int]]`):
            Where pieces of it begin, in the program and in the completion, in ascending order. Within a piece both have the same
            characters, but for the end of a line: where that is `\\r\\n` in the completion, the program's `\\n` stands at the `\\r`.
    """

    source: str
    pieces: Pieces

    def position(self, offset: int) -> int:
        """Where a character of the program stands in the completion; both count from 0."""
        return _position(self.pieces, offset)


def _position(pieces: Pieces, offset: int) -> int:
    begin, there = pieces[bisect_right(pieces, (offset, math.inf)) - 1]
    return there + offset - begin


def _through(first: Pieces, length: int, second: Pieces) -> Pieces:
    """Pieces of a text of some length in a second one, and of that in a third one, as pieces of the first in the third."""
    pieces = []
    for (begin, there), end in zip(first, [*(begin for begin, _ in first[1:]), length], strict=True):
        pieces.append((begin, _position(second, there)))
        for number in range(bisect_right(second, (there, math.inf)), len(second)):
            cut, beyond = second[number]
            if cut >= there + end - begin:
                break
            pieces.append((begin + cut - there, beyond))
    return pieces


def _joined(spans: list[Span], gap: int) -> Pieces:
    """Of spans of a text that are joined by `gap` characters, where they stand in it."""
    pieces, length = [], 0
    for start, end in spans:
        pieces.append((length, start))
        length += end - start + gap
    return pieces


def _unthought(text: str) -> list[Span]:
    """What is no thought. In one pass: a regular expression would take seconds for many opening tags."""
    kept, end = [], 0
    while (start := text.find("<think>", end)) >= 0 and (close := text.find("</think>", start)) >= 0:
        kept.append((end, start))
        end = close + len("</think>")
    return [*kept, (end, len(text))]


def given_program(text: str) -> str:
    """The program in what was asked for as a program: all of it if it is Python, else the one in its fence, if there is one."""
    if _wrong_line(text) is not None:
        return (extract_code(text) if "```" in text else None) or text
    return text


def extract_code(completion: str) -> str | None:
    """
    Take the program out of a completion.

    The last complete fenced block wins; blocks of other languages do not count, nor does what the model thought. Of a
    completion that was cut off inside its only block the rest is taken. Without any fence the whole text counts if it
    is Python that does something, else what is Python from its first import on.

    Args:
        completion (`str`):
            What the model wrote.

    Returns:
        `str`, *optional*: The program, or `None` where there is none.
    """
    found = find_code(completion)
    return None if found is None else found.source


def find_code(completion: str) -> FoundCode | None:
    """
    The program that [`extract_code`] takes out of a completion, and where it stands in there.

    Args:
        completion (`str`):
            What the model wrote.

    Returns:
        [`FoundCode`], *optional*: `None` where there is none.
    """
    text = completion.replace("\r\n", "\n")
    kept = _unthought(text)
    answer = "".join(text[start:end] for start, end in kept)
    # The opening tag may stand in the prompt, and a completion may end before the closing one.
    begin = len(answer) - len(answer.rpartition("</think>")[2])
    answer = answer[begin:]
    if "<think>" in answer:
        return None
    lines = _program_lines(answer)
    if not lines:
        return None
    source = _text(answer, lines)
    in_answer = [(offset, there + begin) for offset, there in _joined(lines, 1)]
    in_text = _through(in_answer, len(source), _joined(kept, 0))
    ends = enumerate(match.start() for match in re.finditer("\r\n", completion))
    in_completion = [(0, 0), *((end - number + 1, end + 2) for number, end in ends)]
    return FoundCode(source, _through(in_text, len(source), in_completion))


def _program_lines(text: str) -> list[Span]:
    """Where the program's lines stand in an answer; empty where there is none."""
    blocks, rest = _fenced_blocks(text)
    if blocks:
        # A block without a language is as often a program's output; it is taken for a program if it is one.
        programs = [lines for language, lines in blocks if language or _is_program(_text(text, lines))]
        return programs[-1] if programs else blocks[-1][1]
    return rest or _bare_program(text)


def _text(text: str, lines: list[Span]) -> str:
    return "\n".join(text[start:end] for start, end in lines)


def _trimmed(text: str, lines: list[Span]) -> list[Span]:
    """Without empty lines at the beginning and blanks at the end."""
    first = next((number for number, (start, end) in enumerate(lines) if start < end), len(lines))
    kept = lines[first:]
    while kept:
        start, end = kept.pop()
        if line := text[start:end].rstrip():
            return [*kept, (start, start + len(line))]
    return []


def _fenced_blocks(text: str) -> tuple[list[tuple[str, list[Span]]], list[Span]]:
    """The complete blocks that may be Python, as language and lines, and the last one if it is left open."""
    blocks: list[tuple[str, list[Span]]] = []
    indent, mark, language, lines = "", "", "", list[Span]()
    begin, after = 0, 0

    def add(code: str) -> None:
        """Takes a line, or the beginning of one."""
        lines.append((begin + len(code) - len(code.removeprefix(indent)), begin + len(code)))

    for line in text.split("\n"):
        begin, after = after, after + len(line) + 1
        fence = _FENCE.fullmatch(line)
        info = fence["info"].strip(" \t{}.").lower().split() if fence else []
        closes = fence is not None and not info and fence["mark"].startswith(mark)
        if mark and (closes or (fence is None and line.rstrip().endswith(mark))):
            if not closes:  # at the end of a line of code
                add(line.rstrip().removesuffix(mark))
            if language in _PYTHON | {""} and (code := _trimmed(text, lines)):
                blocks.append((language, code))
            mark = ""
        elif fence and (not mark or _PYTHON.intersection(info[:1])):  # in a block: the model began anew
            indent, mark, language, lines = fence["indent"], fence["mark"], info[0] if info else "", []
        elif mark:
            add(line)
        elif opening := _FENCE_AFTER_TEXT.search(line):
            indent, mark, language, lines = "", opening["mark"], "python", []
    return blocks, _trimmed(text, lines) if mark and language in _PYTHON | {""} else []


def _bare_program(text: str) -> list[Span]:
    """A text that is a program, or the first part of it that begins with an import and ends before what is no Python."""
    if _is_program(text):
        return _stripped(text, 0, len(text))
    lines = text.split("\n")
    begins = [0, *accumulate(len(line) + 1 for line in lines)]
    left = READS * len(text)
    for start in (number for number, line in enumerate(lines) if _IMPORT.match(line)):
        end = len(lines)
        while start < end:
            part = text[begins[start] : begins[end] - 1]
            left -= len(part)
            if left < 0:
                return []
            if (wrong := _wrong_line(part)) is None:
                break
            end = start + min(wrong, end - start) - 1
        if start < end and _is_program(part):
            return _stripped(text, begins[start], begins[end] - 1)
    return []


def _stripped(text: str, start: int, end: int) -> list[Span]:
    """Without blanks around it."""
    part = text[start:end]
    return [(start + len(part) - len(part.lstrip()), start + len(part.rstrip()))]


def _wrong_line(text: str) -> int | None:
    """Number of the line that is no Python; `None` if all is."""
    try:
        parse_program(text)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def _is_program(text: str) -> bool:
    """Whether a text is Python with at least one import, assignment or call: "Done" is Python, too."""
    try:
        tree = parse_program(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser raises all of them on odd texts
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Call) for node in ast.walk(tree))
