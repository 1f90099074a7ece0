"""Reads a language model's answer: the places of the milestones, and whether they are possible."""

import ast
import re

from trl_mle.execution.program import ProgramError, parse_program, split_lines
from trl_mle.instrumentation.milestones import IMPORTS, MILESTONES, is_block
from trl_mle.instrumentation.verify import VerificationError


# Why a milestone cannot have been reached at a place. "no_work": the code before it only imports, defines and names
# constants; "import": the place is an import, which does no other step
REASONS = ("one_line", "before_imports", "in_string", "after_exit", "no_work", "import")
EXITS = {"exit", "quit", "_exit", "abort"}

_NAMED = re.compile(rf"[\s\-*`\"']*+({'|'.join(MILESTONES)})[`*\"']*+\s*+:(.*)")
MIN_QUOTE = 8  # characters of a line; fewer stand in too many lines
_PRINT = re.compile(rf"milestone:\s*({'|'.join(MILESTONES)})")


def parse_quotes(program: str, answer: str) -> list[tuple[int, str]]:
    """
    Reads an answer such as `train_data: train = pd.read_csv("train.csv")`: a step before copies of the program's lines or parts
    of them, of which the last counts. Thoughts, and quotations that are not in the program, are ignored.
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
    Finds where a rewritten program prints `milestone: <name>`, if it is the original program plus such prints. If it
    differs otherwise, raises [`VerificationError`].
    """
    try:
        found = parse_program(rewritten)
    except ProgramError as error:
        raise VerificationError(f"the rewritten program does not compile: {error}") from error
    placements: list[tuple[int, str]] = []
    _align(parse_program(original).body, found.body, placements)
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
        if any(
            isinstance(later, ast.ImportFrom) and later.module == "__future__" and not later.level
            for later in expected[position:]
        ):
            raise VerificationError(
                f"line {statement.lineno} of the rewritten program stands before `from __future__`"
            )
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
        if is_block(a) and is_block(b):
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


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


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
    """Keeps the milestones that can have been reached at the model's places; for the others returns the reasons."""
    if len(placements) > 2 and len({line for line, _ in placements}) == 1:
        return [], ["one_line"] * len(placements)
    tree, last_line = parse_program(original), len(split_lines(original))
    imports, work = set[int](), set[int]()
    in_strings, after_exit = set[int](), set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                imports.add(node.lineno)
            case ast.Call() | ast.BinOp() | ast.Subscript() | ast.comprehension() | ast.For() | ast.While():
                work.add(getattr(node, "lineno", last_line))
            case ast.JoinedStr() | ast.Constant(str() | bytes()):
                in_strings.update(range(node.lineno, node.end_lineno or node.lineno))
        for _, value in ast.iter_fields(node):
            for statement in _behind_exit(value) if is_block(value) else ():
                after_exit.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    first_import, first_work = (min(lines, default=last_line + 1) for lines in (imports, work))
    end_of_imports = _end_of_imports(tree)

    def objection(line: int, milestone: str) -> str | None:
        if line < end_of_imports:
            return "before_imports"
        if line in in_strings:
            return "in_string"
        if line in after_exit:
            return "after_exit"
        if line < (first_import if milestone == IMPORTS else first_work):
            return "no_work"
        return "import" if line in imports and milestone != IMPORTS else None

    objections = [(placement, objection(*placement)) for placement in placements]
    kept = [placement for placement, reason in objections if reason is None]
    return kept, [reason for _, reason in objections if reason is not None]


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
