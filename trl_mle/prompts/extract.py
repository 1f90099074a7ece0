"""Extracts the program from a completion."""

import ast
import json
import re
from dataclasses import dataclass, field

from trl_mle.execution.program import ProgramError, parse_program


# The training process reads what a policy wrote, so no expression may look at a character more than a few times
_FENCE = re.compile(
    r"(?P<indent>[ \t]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?+)(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`]*+)"
)
_FENCE_AFTER_TEXT = re.compile(r"(?i)(?P<indent>)(?<!`)(?P<mark>`{3,}+)[ \t]*+(?P<info>python3?|py)[ \t]*+$")
_IMPORT = re.compile(r"(?m)^(?:import \w|from \S++ import )")
# A notebook's commands: `%time` before a statement, which stays; `!pip install`, `%matplotlib inline`, `files = !ls`
_COMMAND = re.compile(r"^([ \t]*+)(?:%{1,2}time\b[ \t]*+|(?:\w++[ \t]*+=[ \t]*+)?[!%].*)")
_SUBMISSION = re.compile(r"(?P<read>\bread_\w++\([^\"')\n]{0,99}[\"'][^\"'\n]*)?(?<=[\"'/])submission\.csv\b")
_READS = re.compile(r"\bread_\w+\(|\bopen\((?![^()\n]{0,99}[\"'][wax][bt+]*+[\"'])|[\"']\.{0,2}/?input[/\"']")
_STORES = re.compile(
    r"\b(?:dump|save\w*+|write\w*+|shutil\.\w++|to_(?:csv|excel|feather|hdf|json|parquet|pickle))\("
    r"|[\"'][wax][bt+]*+[\"']"
)
_PYTHON = {"python", "python3", "py"}
READS = 20  # how often a text without fences is parsed, at most


def given_program(text: str) -> str:
    """The program in an answer that should be one: all of it, or what is in a fence if it is not Python."""
    return (extract_code(text) if "```" in text and _wrong_line(text) is not None else None) or text


def notebook_program(text: str) -> str:
    """The code cells of an `.ipynb` file, without a notebook's commands. Raises `ValueError` if it is no notebook."""
    try:
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError("the file holds no Jupyter notebook of format 4: save it as one, or as .py") from error
    return "\n\n".join(_code("".join(cell).split("\n")) for cell in cells)


def extract_code(completion: str) -> str | None:
    """
    Extracts the program from a completion, if there is one: of several fenced blocks of Python, the last complete one
    that imports packages, reads data and writes a submission; all blocks if only together they do, as cells of a
    notebook; without a fence, the text if it is Python, or its Python from the first import on. Thoughts, blocks of
    other languages and a notebook's commands, such as `!pip install`, do not count.
    """
    # The opening tag may be in the prompt, and a completion may end before the closing one
    answer = completion.replace("\r\n", "\n").rpartition("</think>")[2]
    return None if "<think>" in answer else _program(answer) or None


@dataclass
class _Block:
    mark: str
    language: str
    indent: int  # what follows in an item of a list is indented by as much
    lines: list[str] = field(default_factory=list)
    is_complete: bool = False

    def add(self, line: str) -> None:
        """Takes a line without the indentation of its fence."""
        self.lines.append(line[min(self.indent, len(line) - len(line.lstrip(" \t"))) :])


def _program(text: str) -> str:
    blocks = [
        block for block in _fenced_blocks(text) if block.language in _PYTHON | {""} and "".join(block.lines).strip()
    ]
    # A block without a language may be a program's output, so it must be a program
    programs = [block for block in blocks if block.language or _is_program("\n".join(block.lines))]
    if not programs:  # perhaps a fence closes what none has opened
        return _bare_program(text) or (_code(blocks[-1].lines) if blocks else "")
    codes = [_code(block.lines) for block in programs]
    merits = [
        (*_parts(code), _wrong_line(code) is None, block.is_complete)
        for code, block in zip(codes, programs, strict=True)
    ]
    best = max(range(len(programs)), key=lambda number: (merits[number], number))
    together = "\n".join(filter(None, codes))
    if len(codes) > 1 and not all(merits[best][:3]) and all(_parts(together)) and _wrong_line(together) is None:
        return together  # the cells of a notebook
    return codes[best]


def _parts(code: str) -> tuple[bool, bool, bool]:
    """Whether a program writes a submission, reads data, and imports packages."""
    submission = _SUBMISSION.search(code)  # what reads it first checks what another block wrote
    writes = submission is not None and not submission["read"] and _STORES.search(code) is not None
    return writes, _READS.search(code) is not None, _IMPORT.search(code) is not None


def _code(lines: list[str]) -> str:
    """A program without a notebook's commands, unless it is Python with them: they may be in a string."""
    code = "\n".join(lines)
    if _wrong_line(code) is not None:
        code = "\n".join(kept for line in lines if (kept := _COMMAND.sub(r"\1", line)) == line or kept.strip())
    return code.lstrip("\n").rstrip()


def _fenced_blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    block: _Block | None = None
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line) or _FENCE_AFTER_TEXT.search(line)
        language = "" if fence is None else _language(fence["info"])
        if fence is not None and (block is None or language in _PYTHON):  # in a block, the model began anew
            block = _Block(fence["mark"], language, len(fence["indent"]))
        elif block is not None:
            is_fence = fence is not None and fence["mark"].startswith(block.mark)
            block.is_complete = is_fence or line.rstrip().endswith(block.mark)  # at the end of a line of code
            if not is_fence:
                block.add(line.rstrip().removesuffix(block.mark) if block.is_complete else line)
            if block.is_complete:
                blocks.append(block)
                block = None
    return [*blocks, block] if block is not None else blocks


def _language(info: str) -> str:
    """The language behind a fence, such as `python` of `{.python}`, `python:train.py` and `train.py`."""
    word = (info.strip(" \t{}.").lower().split() or [""])[0]
    return "python" if word.endswith(".py") else word.partition(":")[0]


def _bare_program(text: str) -> str:
    """The text if it is a program, or its first part from an import to what is no Python."""
    if _is_program(text):
        return text.strip()
    lines = text.split("\n")
    reads = READS
    for start in (number for number, line in enumerate(lines) if _IMPORT.match(line)):
        end = len(lines)
        while start < end and (reads := reads - 1) > 0:
            part = "\n".join(lines[start:end])
            wrong = _wrong_line(part)
            if wrong is None:
                if _is_program(part):
                    return part.strip()
                break
            end = start + min(wrong, end - start) - 1
    return ""


def _wrong_line(text: str) -> int | None:
    """Number of the line that is no Python; `None` if all is."""
    try:
        parse_program(text)
    except ProgramError as error:
        return error.line
    return None


def _is_program(text: str) -> bool:
    """Whether a text is Python that does something: "Done" is Python, too."""
    acts = ast.Import | ast.ImportFrom | ast.Assign | ast.Call
    return _wrong_line(text) is None and any(isinstance(node, acts) for node in ast.walk(parse_program(text)))
