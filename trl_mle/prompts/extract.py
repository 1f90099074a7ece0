"""Extracts the program from a completion."""

import ast
import builtins
import re
import symtable
from typing import NamedTuple

from trl_mle.execution.program import FILENAME, parse_program


# The training process reads what a policy wrote, so no expression may look at a character more than a few times
_FENCE = re.compile(
    r"(?P<indent>[ \t]*+(?:>[ \t]*+)*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?+)(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`]*+)"
)
_FENCE_AFTER_TEXT = re.compile(r"(?<!`)(?P<mark>`{3,}+)[ \t]*+(python3?|py)[ \t]*+$", re.IGNORECASE)
_IMPORT = re.compile(r"import \w|from \S+ import ")
_NOTEBOOK = re.compile(r"[ \t]*+[!%]")  # a command of a notebook, such as `!pip install` or `%matplotlib inline`
_SUBMISSION = re.compile(r"(?P<read>\bread_\w++\([^\"')\n]{0,99}[\"'][^\"'\n]*)?(?<=[\"'/])submission\.csv\b")
_READS = re.compile(r"\bread_\w+\(|\bopen\((?![^()\n]{0,99}[\"'][wax][bt+]*+[\"'])|[\"']\.{0,2}/?input[/\"']")
_MODULE = re.compile(r"\b(\w+)\.py\b")  # a file's name in a heading, a fence or a comment
_IMPORTED = re.compile(r"(?m)^(?:from|import)[ \t]++(\w++)")
_STAR_IMPORT = re.compile(r"(?m)^from [\w.]++ import \*")
_FILE = re.compile(r"[\"']([\w./-]++)[\"']")
_STORES = re.compile(
    r"\b(?:dump|save\w*+|write\w*+|shutil\.\w++|to_(?:csv|excel|feather|hdf|json|parquet|pickle))\(|[\"'][wax][bt+]*+[\"']"
)
_QUOTE = re.compile(r"""\\.|"{3}|'{3}|["'#]""")
_PYTHON = {"python", "python3", "py"}
_OTHERS = {"bash", "sh", "shell", "console", "text", "plaintext", "output", "json", "yaml", "csv", "markdown", "diff"}
MOST_CHILDREN = 100  # functions, classes and comprehensions of a scope: each of its symbols looks at all of them
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
    Extracts the program from a completion: of several fenced blocks of Python, the last complete one that reads data and
    writes a submission, after the files that it needs, or with the blocks before and after it that share names, as
    cells of a notebook do; all blocks if only together they do both; without a fence, the text if it is Python that does
    something, otherwise the Python from its first import on. Thoughts, blocks of other languages and a notebook's commands,
    such as `!pip install`, do not count.

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
    module: str
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
    return _without_commands(_chosen(programs) if len(programs) > 1 else programs[0].lines)


def _chosen(programs: list[_Block]) -> list[str]:
    """The lines of the best block, after those of the others that it needs."""
    merits = _merits(programs)
    best = max(range(len(programs)), key=lambda number: (merits[number], number))
    if merits[best].is_whole:
        needed = _with_needed(programs[: best + 1])
    else:  # a notebook, up to the last cell that uses names of others
        needed = programs[: 1 + max(number for number, merit in enumerate(merits) if not merit.is_whole)]
    is_alone = merits[best].writes and merits[best].reads
    for blocks in [needed] if is_alone else [needed, programs]:
        if len(blocks) > 1:
            together = _joined_blocks(blocks)
            [merit] = _merits([_Block("python", together, "", is_complete=True)])
            if merit.writes and merit.reads and merit.is_python:
                return together
    return programs[best].lines


def _with_needed(programs: list[_Block]) -> list[_Block]:
    """The last program, after the files that it imports, or that write what it reads."""
    needed = programs[-1:]
    wanted = _files(programs[-1].lines)[0] - {"submission.csv"}  # which it writes itself
    for block in reversed(programs[:-1]):
        wants, stores = _files(block.lines)
        offers = stores | {f"{block.module}.py"}
        if wanted & offers:
            needed.append(block)
            wanted |= wants
            wanted -= offers
    return needed[::-1]


def _joined_blocks(blocks: list[_Block]) -> list[str]:
    """The lines of several blocks as one program, in which they do not import each other."""
    modules = {block.module for block in blocks}
    lines = (line for block in blocks for line in block.lines)
    return [line for line in lines if not ((found := _IMPORTED.match(line)) and found[1] in modules)]


def _files(lines: list[str]) -> tuple[set[str], set[str]]:
    """Names of files that a program needs, modules among them, and of those that it writes."""
    used, stored = set[str](), set[str]()
    for line in lines:
        used.update(f"{module}.py" for module in _IMPORTED.findall(line))
        found = {path.rpartition("/")[2] for path in _FILE.findall(line)}
        (stored if _STORES.search(line) else used).update(found)
    return used - stored, stored


def _names(code: str) -> tuple[set[str], set[str]]:
    """Global names that Python code uses without binding them, and those that it binds."""
    try:  # not `compile`, which nested comprehensions crash in Python 3.12
        tables = [symtable.symtable(code, FILENAME, "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    for table in tables:
        children = table.get_children()
        if len(children) > MOST_CHILDREN:
            return set(), set()
        tables.extend(children)
    symbols = [symbol for table in tables for symbol in table.get_symbols() if symbol.is_global()]
    bound = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
    if _STAR_IMPORT.search(code):  # which may bind the others
        return set(), bound
    return {symbol.get_name() for symbol in symbols} - bound - set(dir(builtins)), bound


class _Merit(NamedTuple):
    """Criteria for the block that is the program, in order of importance."""

    writes: bool
    reads: bool
    is_whole: bool  # uses no names of the blocks before it
    is_python: bool
    is_complete: bool


def _merits(blocks: list[_Block]) -> list[_Merit]:
    merits = list[_Merit]()
    offered = set[str]()
    for block in blocks:
        code = "\n".join(_without_commands(block.lines))
        found = _SUBMISSION.search(code)  # what reads it first checks what another block wrote
        writes = found is not None and not found["read"] and _STORES.search(code) is not None
        is_python = _wrong_line(code) is None
        used, bound = _names(code) if is_python else (set[str](), set[str]())
        reads, is_whole = bool(_READS.search(code)), used.isdisjoint(offered)
        merits.append(_Merit(writes, reads, is_whole, is_python, block.is_complete))
        offered |= bound
    return merits


def _without_commands(lines: list[str]) -> list[str]:
    """Drops a notebook's commands, unless the lines are Python with them: they may be in a string."""
    kept = [line for line in lines if not _NOTEBOOK.match(line)]
    if len(kept) == len(lines) or _wrong_line("\n".join(lines)) is None:
        return lines
    return _trimmed(kept)


def _trimmed(lines: list[str]) -> list[str]:
    """Drops empty lines at the beginning, and blanks at the end."""
    code = "\n".join(lines).lstrip("\n").rstrip()
    return code.split("\n") if code else []


def _fenced_blocks(text: str) -> list[_Block]:
    """The blocks that may be Python; the last one may be left open."""
    blocks: list[_Block] = []
    indent, mark, language, lines = "", "", "", list[str]()
    heading, module = "", ""
    first_closed = None  # the number of lines at the first fence within a string
    quote = ""  # of the string that is open

    def open_block(new_indent: str, new_mark: str, new_language: str) -> None:
        nonlocal indent, mark, language, lines, first_closed, heading, module, quote
        indent, mark, language, lines, first_closed, quote = new_indent, new_mark, new_language, [], None, ""
        found, heading = _MODULE.search(heading + line), ""
        module = found[1] if found else ""

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
            said = _MODULE.search(code[0]) if code[0].startswith("#") else None
            blocks.append(_Block(language, code, said[1] if said else module, is_complete))
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
            elif line.strip():
                heading = line
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
