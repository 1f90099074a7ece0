"""Taking the program out of a completion."""

import ast
import re


_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
_FENCE_AFTER_TEXT = re.compile(r"(?P<mark>`{3,})[ \t]*(python3?|py)[ \t]*$", re.IGNORECASE)
_IMPORT = re.compile(r"import \w|from \S+ import ")
_PYTHON = {"python", "python3", "py"}


def _without_thoughts(text: str) -> str:
    """In one pass: a regular expression would take seconds for many opening tags."""
    kept, end = [], 0
    while (start := text.find("<think>", end)) >= 0 and (close := text.find("</think>", start)) >= 0:
        kept.append(text[end:start])
        end = close + len("</think>")
    return "".join([*kept, text[end:]])


def given_program(text: str) -> str:
    """The program in what was asked for as a program: all of it if it is Python, else the one in its fence, if there is one."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
    text = _without_thoughts(completion.replace("\r\n", "\n"))
    # The opening tag may stand in the prompt, and a completion may end before the closing one.
    text = text.rpartition("</think>")[2]
    if "<think>" in text:
        return None
    blocks, rest = _fenced_blocks(text)
    if blocks:
        # A block without a language is as often a program's output; it is taken for a program if it is one.
        programs = [code for language, code in blocks if language or _is_program(code)]
        return programs[-1] if programs else blocks[-1][1]
    if rest is not None:
        return rest
    return _bare_program(text)


def _fenced_blocks(text: str) -> tuple[list[tuple[str, str]], str | None]:
    """The complete blocks that may be Python, as (language, code), and the last one if it is left open."""
    blocks: list[tuple[str, str]] = []
    indent, mark, language, lines = "", "", "", list[str]()

    def code() -> str:
        return "\n".join(lines).strip("\n").rstrip()

    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        info = fence["info"].strip(" \t{}.").lower().split() if fence else []
        closes = fence is not None and not info and fence["mark"].startswith(mark)
        if mark and (closes or (fence is None and line.rstrip().endswith(mark))):
            if not closes:  # at the end of a line of code
                lines.append(line.rstrip().removesuffix(mark).removeprefix(indent))
            if language in _PYTHON | {""} and code():
                blocks.append((language, code()))
            mark = ""
        elif fence and (not mark or _PYTHON.intersection(info[:1])):  # in a block: the model began anew
            indent, mark, language, lines = fence["indent"], fence["mark"], info[0] if info else "", []
        elif mark:
            lines.append(line.removeprefix(indent))
        elif opening := _FENCE_AFTER_TEXT.search(line):
            indent, mark, language, lines = "", opening["mark"], "python", []
    return blocks, code() or None if mark and language in _PYTHON | {""} else None


def _bare_program(text: str) -> str | None:
    """A text that is a program, or the first part of it that begins with an import and ends before what is no Python."""
    if _is_program(text):
        return text.strip()
    lines = text.split("\n")
    for start in (number for number, line in enumerate(lines) if _IMPORT.match(line)):
        program = lines[start:]
        while program and (wrong := _wrong_line("\n".join(program))):
            program = program[: min(wrong, len(program)) - 1]
        if _is_program("\n".join(program)):
            return "\n".join(program).strip()
    return None


def _wrong_line(text: str) -> int | None:
    """Number of the line that is no Python; `None` if all is."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def _is_program(text: str) -> bool:
    """Whether a text is Python with at least one import, assignment or call: "Done" is Python, too."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser raises all of them on odd texts
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Call) for node in ast.walk(tree))
