"""Extracts the program from a completion."""

import ast
import re
from typing import NamedTuple

from trl_mle.execution.program import ProgramError, parse_program


# The training process reads what a policy wrote, so no expression may look at a character more than a few times
_FENCE = re.compile(
    r"(?P<indent>[ \t]*+(?:>[ \t]*+)*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?+)(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`]*+)"
)
_FENCE_AFTER_TEXT = re.compile(r"(?<!`)(?P<mark>`{3,}+)[ \t]*+(python3?|py)[ \t]*+$", re.IGNORECASE)
_IMPORT = re.compile(r"(?m)^(?:import \w|from \S++ import )")
# A notebook's commands: `%time` before a statement, which stays; `!pip install`, `%matplotlib inline`, `files = !ls`
_COMMAND = re.compile(r"^([ \t]*+)(?:%{1,2}time\b[ \t]*+|(?:\w++[ \t]*+=[ \t]*+)?[!%].*)")
_SUBMISSION = re.compile(r"(?P<read>\bread_\w++\([^\"')\n]{0,99}[\"'][^\"'\n]*)?(?<=[\"'/])submission\.csv\b")
_READS = re.compile(r"\bread_\w+\(|\bopen\((?![^()\n]{0,99}[\"'][wax][bt+]*+[\"'])|[\"']\.{0,2}/?input[/\"']")
_STORES = re.compile(
    r"\b(?:dump|save\w*+|write\w*+|shutil\.\w++|to_(?:csv|excel|feather|hdf|json|parquet|pickle))\(|[\"'][wax][bt+]*+[\"']"
)
_QUOTE = re.compile(r"""\\.|"{3}|'{3}|["'#]""")
_PYTHON = {"python", "python3", "py"}
_OTHERS = {"bash", "sh", "shell", "console", "text", "plaintext", "output", "json", "yaml", "csv", "markdown", "diff"}
READS = 20  # limits parsing of a text without fences to this multiple of its length


def _unthought(text: str) -> str:
    """The text outside of thoughts. A regular expression would take seconds for many opening tags."""
    kept, end = [], 0
    while (start := text.find("<think>", end)) >= 0 and (close := text.find("</think>", start)) >= 0:
        kept.append(text[end:start])
        end = close + len("</think>")
    return "".join([*kept, text[end:]])


def given_program(text: str) -> str:
    """The program in an answer that should be one: all of it if it is Python, otherwise the program in a fence, if any."""
    if _wrong_line(text) is not None:
        return (extract_code(text) if "```" in text else None) or text
    return text


def extract_code(completion: str) -> str | None:
    """
    Extracts the program from a completion: of several fenced blocks of Python, the last complete one that imports packages,
    reads data and writes a submission; all blocks if only together they do, as cells of a notebook; without a fence, the
    text if it is Python that does something, otherwise the Python from its first import on. Thoughts, blocks of other
    languages and a notebook's commands, such as `!pip install`, do not count.

    Args:
        completion (`str`):
            What the model wrote.

    Returns:
        `str` or `None`: The program, if there is one.
    """
    # The opening tag may be in the prompt, and a completion may end before the closing one
    answer = _unthought(completion.replace("\r\n", "\n")).rpartition("</think>")[2]
    return None if "<think>" in answer else "\n".join(_program_lines(answer)) or None


class _Block(NamedTuple):
    """A fenced block that may be Python."""

    language: str
    lines: list[str]
    is_complete: bool


def _program_lines(text: str) -> list[str]:
    """The program's lines in an answer; empty without a program."""
    blocks = _fenced_blocks(text)
    if not blocks:
        return _bare_program(text)
    # A block without a language may be a program's output, so it must be a program
    programs = [block for block in blocks if block.language or _is_program("\n".join(block.lines))]
    if not programs and (bare := _bare_program(text)):  # a fence closes what none has opened
        return bare
    programs = programs or blocks
    return _chosen(programs) if len(programs) > 1 else _without_commands(programs[0].lines)


def _chosen(blocks: list[_Block]) -> list[str]:
    """The lines of the best block, or of all if they are a program only together."""
    merits = [_merit(block) for block in blocks]
    best = max(range(len(blocks)), key=lambda number: (merits[number], number))
    together = _Block("python", [line for block in blocks for line in block.lines], is_complete=True)
    is_joined = not all(merits[best][:3]) and all(_merit(together))
    return _without_commands(together.lines if is_joined else blocks[best].lines)


def _merit(block: _Block) -> tuple[bool, ...]:
    """Criteria for the block that is the program, in order of importance: it writes, reads, imports, is Python, and is complete."""
    code = "\n".join(_without_commands(block.lines))
    found = _SUBMISSION.search(code)  # what reads it first checks what another block wrote
    writes = found is not None and not found["read"] and _STORES.search(code) is not None
    imports = _IMPORT.search(code) is not None
    return writes, _READS.search(code) is not None, imports, _wrong_line(code) is None, block.is_complete


def _without_commands(lines: list[str]) -> list[str]:
    """Drops a notebook's commands, unless the lines are Python with them: they may be in a string."""
    if _wrong_line("\n".join(lines)) is None:
        return lines
    kept = []
    for line in lines:
        code = _COMMAND.sub(r"\1", line)
        if code == line or code.strip():
            kept.append(code)
    return _trimmed(kept)


def _trimmed(lines: list[str]) -> list[str]:
    """Drops empty lines at the beginning, and blanks at the end."""
    code = "\n".join(lines).lstrip("\n").rstrip()
    return code.split("\n") if code else []


def _fenced_blocks(text: str) -> list[_Block]:
    """The blocks that may be Python; the last one may be left open."""
    blocks: list[_Block] = []
    indent, mark, language, lines = "", "", "", list[str]()
    first_closed = None  # the number of lines at the first fence within a string
    quote = ""  # of the string that is open

    def open_block(new_indent: str, new_mark: str, new_language: str) -> None:
        nonlocal indent, mark, language, lines, first_closed, quote
        indent, mark, language, lines, first_closed, quote = new_indent, new_mark, new_language, [], None, ""

    def add(code: str) -> None:
        """Takes a line, or the beginning of one, without the indentation of its fence."""
        nonlocal quote
        cut = len(indent) if code.startswith(indent) else min(len(code) - len(code.lstrip(" \t>")), len(indent))
        lines.append(code[cut:])
        for found in _QUOTE.findall(code):
            if not quote and found == "#":
                break
            if found == quote:
                quote = ""
            elif not quote and found[0] != "\\":
                quote = found
        quote = quote if len(quote) == 3 else ""

    def close(count: int | None = None, is_complete: bool = True) -> None:
        nonlocal mark
        if language in _PYTHON | {""} and (code := _trimmed(lines[:count])):
            blocks.append(_Block(language, code, is_complete))
        mark = ""

    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        info = fence["info"].strip(" \t{}.").lower().split() if fence else []
        if info:  # `python:train.py`, `train.py`
            info[0] = "python" if info[0].endswith(".py") else info[0].partition(":")[0]
        if not mark:
            if fence:
                # What follows in an item of a list is indented by as much
                lead = fence["indent"] if ">" in fence["indent"] else " " * len(fence["indent"])
                open_block(lead, fence["mark"], info[0] if info else "")
            elif opening := _FENCE_AFTER_TEXT.search(line):
                open_block("", opening["mark"], "python")
        elif fence is not None and fence["mark"].startswith(mark):
            if quote:  # the program writes Markdown, or forgot to end a string
                first_closed = len(lines) if first_closed is None else first_closed
                add(line)
            elif _PYTHON.intersection(info[:1]):  # the model began anew
                open_block(fence["indent"], fence["mark"], info[0])
            else:
                close()
                if len(info) == 1 and info[0] in _OTHERS:  # and it had forgotten to
                    open_block("", fence["mark"], info[0])
        elif fence is None and (opening := _FENCE_AFTER_TEXT.search(line)):
            open_block("", opening["mark"], "python")  # the model did not go on with what was begun for it
        elif fence is None and line.rstrip().endswith(mark):
            add(line.rstrip().removesuffix(mark))  # at the end of a line of code
            close()
        else:
            add(line)
    if mark:
        close(first_closed, is_complete=first_closed is not None)
    return blocks


def _bare_program(text: str) -> list[str]:
    """A text that is a program, or the first part of it that begins with an import and ends before what is no Python."""
    if _is_program(text):
        return [text.strip()]
    lines = text.split("\n")
    left = READS * len(text)
    for start in (number for number, line in enumerate(lines) if _IMPORT.match(line)):
        end = len(lines)
        while start < end:
            part = "\n".join(lines[start:end])
            left -= len(part)
            if left < 0:
                return []
            if (wrong := _wrong_line(part)) is None:
                break
            end = start + min(wrong, end - start) - 1
        if start < end and _is_program(part):
            return [part.strip()]
    return []


def _wrong_line(text: str) -> int | None:
    """Number of the line that is no Python; `None` if all is."""
    try:
        parse_program(text)
    except ProgramError as error:
        return error.line
    return None


def _is_program(text: str) -> bool:
    """Whether a text is Python with at least one import, assignment or call: "Done" is Python, too."""
    try:
        tree = parse_program(text)
    except ProgramError:
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Call) for node in ast.walk(tree))
