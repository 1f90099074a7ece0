"""Extracts the program from a completion."""

import ast
import re


_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
_FENCE_AFTER_TEXT = re.compile(r"(?P<mark>`{3,})[ \t]*(python3?|py)[ \t]*$", re.IGNORECASE)
_IMPORT = re.compile(r"import \w|from \S+ import ")
_PYTHON = {"python", "python3", "py"}


def _without_thoughts(text: str) -> str:
    """Removes thoughts in one pass: a regular expression would take seconds for many opening tags."""
    kept, end = [], 0
    while (start := text.find("<think>", end)) >= 0 and (close := text.find("</think>", start)) >= 0:
        kept.append(text[end:start])
        end = close + len("</think>")
    return "".join([*kept, text[end:]])


def given_program(text: str) -> str:
    """The program in a text that should be a program: the whole text if it is Python, otherwise its fenced block, if any."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (extract_code(text) if "```" in text else None) or text
    return text


def extract_code(completion: str) -> str | None:
    """
    Extracts the program from a completion.

    The last complete fenced block counts; blocks in other languages and the model's thoughts are ignored. If the
    completion is truncated inside its only block, the rest of the text counts. Without a fence, the whole text counts
    if it is Python that does something; otherwise, the part that is Python from the first import on.

    Args:
        completion (`str`):
            The completion.

    Returns:
        `str`, *optional*: The program; `None` if there is none.
    """
    text = _without_thoughts(completion.replace("\r\n", "\n"))
    # The opening tag may be in the prompt, and a completion may end before the closing tag.
    text = text.rpartition("</think>")[2]
    if "<think>" in text:
        return None
    blocks, rest = _fenced_blocks(text)
    if blocks:
        # A block without a language is often a program's output: it counts only if it is a program.
        programs = [code for language, code in blocks if language or _is_program(code)]
        return programs[-1] if programs else blocks[-1][1]
    if rest is not None:
        return rest
    return _bare_program(text)


def _fenced_blocks(text: str) -> tuple[list[tuple[str, str]], str | None]:
    """The complete blocks that may be Python, as (language, code), and the last block if it is unclosed."""
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
        elif fence and (not mark or _PYTHON.intersection(info[:1])):  # inside a block: the model started over
            indent, mark, language, lines = fence["indent"], fence["mark"], info[0] if info else "", []
        elif mark:
            lines.append(line.removeprefix(indent))
        elif opening := _FENCE_AFTER_TEXT.search(line):
            indent, mark, language, lines = "", opening["mark"], "python", []
    return blocks, code() or None if mark and language in _PYTHON | {""} else None


def _bare_program(text: str) -> str | None:
    """The text if it is a program, or else its first part that starts with an import and ends where it stops being Python."""
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
    """Number of the first line that is not Python; `None` if all lines are."""
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
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser raises all of these on unusual texts
        return False
    return any(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Call) for node in ast.walk(tree))
