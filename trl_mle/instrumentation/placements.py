"""Reads a language model's answer: the places of the milestones, and whether they are possible."""

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from trl_mle.execution.program import FILENAME, split_lines
from trl_mle.instrumentation.milestones import IMPORTS, MILESTONES, parse
from trl_mle.instrumentation.verify import VerificationError


REASONS = ("one_line", "before_imports", "in_string", "after_exit", "no_work", "import")
EXITS = {"exit", "quit", "_exit", "abort"}

_NAMED = re.compile(rf"[\s\-*`\"']*+({'|'.join(MILESTONES)})[`*\"']*+\s*+:(.*)")
MIN_QUOTE = 8  # characters of a line; fewer stand in too many lines
_PRINT = re.compile(rf"milestone:\s*({'|'.join(MILESTONES)})")


def parse_quotes(program: str, answer: str) -> list[tuple[int, str]]:
    """
    Reads an answer such as `train_data: train = pd.read_csv("train.csv")`: the name of a step before copies of the program's
    lines, parts of them, or several on one line with words in between. Returns line and milestone; of several lines, the
    last counts. Thoughts, and quotations that are not in the program, are ignored.
    """
    lines = [(number, line.strip()) for number, line in enumerate(program.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if len(line) >= MIN_QUOTE]
    found: dict[str, int] = {}
    milestone = ""
    for line in answer.rpartition("</think>")[2].split("\n"):
        if named := _NAMED.fullmatch(line):
            milestone, line = named[1], named[2]
        quote = line.strip(" \t`*-;")
        if milestone and len(quote) >= MIN_QUOTE:
            numbers = [number for number, text in lines if quote in text or text in quote]
            found[milestone] = max([found.get(milestone, 0), *numbers])
    return [(number, milestone) for milestone, number in found.items() if number]


def parse_rewrite(original: str, rewritten: str) -> list[tuple[int, str]]:
    """
    Finds where a rewritten program prints `milestone: <name>`, if it is the original program plus such prints.

    Raises:
        [`VerificationError`]: The rewritten program differs otherwise.
    """
    try:
        found = parse(rewritten)
        compile(
            found, FILENAME, "exec", dont_inherit=True
        )  # detects an error that the parser accepts: a print before `__future__`
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise VerificationError(f"the rewritten program does not compile: {error}") from error
    placements: list[tuple[int, str]] = []
    try:
        _align(parse(original).body, found.body, placements)
    except RecursionError as error:
        raise VerificationError("the program is nested too deeply to compare") from error
    return placements


def _align(expected: list[ast.stmt], found: list[ast.stmt], placements: list[tuple[int, str]]) -> None:
    """Walks two blocks in parallel; additional statements in `found` must be milestone prints."""
    position = 0
    for statement in found:
        if position < len(expected) and _same(expected[position], statement, placements):
            position += 1
            continue
        milestone = _printed_milestone(statement)
        if milestone is None:
            raise VerificationError(f"line {statement.lineno} of the rewritten program is not the original's")
        if position == 0 and expected and _is_docstring(expected[0]):
            raise VerificationError(f"line {statement.lineno} of the rewritten program stands before a docstring")
        if position:  # otherwise it precedes everything that could have reached it
            placements.append((expected[position - 1].lineno, milestone))
    if position < len(expected):
        raise VerificationError(f"line {expected[position].lineno} of the original is missing")


def _same(left: ast.AST, right: ast.AST, placements: list[tuple[int, str]]) -> bool:
    """Whether two statements are equal except for prints in their blocks."""
    if type(left) is not type(right):
        return False
    blocks = []
    for name in left._fields:
        a, b = getattr(left, name, None), getattr(right, name, None)
        if _is_block(a) and _is_block(b):
            blocks.append((a, b))
        elif isinstance(a, list) and a and isinstance(a[0], ast.excepthandler | ast.match_case):
            if not isinstance(b, list) or len(a) != len(b):
                return False
            if not all(_same(x, y, placements) for x, y in zip(a, b, strict=True)):
                return False
        elif _dump(a) != _dump(b):
            return False
    for a, b in blocks:
        _align(a, b, placements)
    return True


def _is_block(value: object) -> TypeGuard[list[ast.stmt]]:
    return isinstance(value, list) and bool(value) and isinstance(value[0], ast.stmt)


def _is_docstring(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(str())):
            return True
    return False


def _dump(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_dump, value))}]"
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def _printed_milestone(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name("print"), args=[ast.Constant(str(text))], keywords=keywords)):
            flush = [(keyword.arg, _dump(keyword.value)) for keyword in keywords]
            if flush in ([], [("flush", "Constant(value=True)")]) and (match := _PRINT.search(text)):
                return match[1]
    return None


def check(original: str, placements: list[tuple[int, str]]) -> tuple[list[tuple[int, str]], list[str]]:
    """
    Keeps the milestones that can have been reached at the model's places.

    Args:
        original (`str`):
            The program as the policy wrote it.
        placements (`list[tuple[int, str]]`):
            Line and milestone.

    Returns:
        `tuple[list[tuple[int, str]], list[str]]`: The possible placements, and for each of the others the reason:
        `"one_line"` (all on one line), `"before_imports"`, `"in_string"`, `"after_exit"`, `"no_work"` (the code before it only imports, defines and names constants), or `"import"` (an import does
        no other step).
    """
    if len(placements) > 2 and len({line for line, _ in placements}) == 1:
        return [], ["one_line"] * len(placements)
    facts = _Facts(parse(original), len(split_lines(original)))
    kept, refused = [], []
    for line, milestone in placements:
        reason = facts.objection(line, milestone)
        if reason is None:
            kept.append((line, milestone))
        else:
            refused.append(reason)
    return kept, refused


class _Facts:
    """Facts about a program's lines."""

    def __init__(self, tree: ast.Module, last_line: int):
        self.end_of_imports = _end_of_imports(tree)
        lines_of_imports, lines_of_work = [], []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines_of_imports.append(node.lineno)
            elif isinstance(node, ast.Call | ast.BinOp | ast.Subscript | ast.comprehension | ast.For | ast.While):
                lines_of_work.append(getattr(node, "lineno", last_line))
        self.imports = set(lines_of_imports)
        self.first_import = min(lines_of_imports, default=last_line + 1)
        self.first_work = min(lines_of_work, default=last_line + 1)
        self.in_strings = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
            for line in range(node.lineno, node.end_lineno or node.lineno)
        }
        self.after_exit = {
            line
            for block in _blocks(tree)
            for statement in _behind_exit(block)
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        }

    def objection(self, line: int, milestone: str) -> str | None:
        """The reason why the milestone cannot have been reached after this line; `None` if it can."""
        if line < self.end_of_imports:
            return "before_imports"
        if line in self.in_strings:
            return "in_string"
        if line in self.after_exit:
            return "after_exit"
        if line < (self.first_import if milestone == IMPORTS else self.first_work):
            return "no_work"
        if line in self.imports and milestone != IMPORTS:
            return "import"
        return None


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if _is_block(value):
                yield value


def _behind_exit(block: list[ast.stmt]) -> list[ast.stmt]:
    for index, statement in enumerate(block):
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return block[index + 1 :]
            case ast.Expr(value=ast.Call(func=ast.Name(name) | ast.Attribute(attr=name))) if name in EXITS:
                return block[index + 1 :]
    return []


def _end_of_imports(tree: ast.Module) -> int:
    """The line of the last import at the top."""
    last = 0
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement.lineno
        elif last:
            break
    return last
