"""Reads a language model's answer: the places of the milestones, and whether they are possible."""

import ast
import re

from trl_mle.execution.program import ProgramError, parse_program, split_lines
from trl_mle.instrumentation.milestones import IMPORTS, MILESTONES, blocks
from trl_mle.instrumentation.verify import VerificationError, without


EXITS = {"exit", "quit", "_exit", "abort"}

_NAMED = re.compile(rf"[\s\-*`\"']*+({'|'.join(MILESTONES)})[`*\"']*+\s*+:(.*)")
MIN_QUOTE = 8  # characters of a line; fewer stand in too many lines
_PRINT = re.compile(rf"milestone:\s*({'|'.join(MILESTONES)})")


def parse_quotes(program: str, answer: str) -> list[tuple[int, str]]:
    """
    Reads an answer such as `train_data: train = pd.read_csv("train.csv")`: a step before copies of the program's lines
    or parts of them, of which the last counts.
    """
    lines = [(number, line.strip()) for number, line in enumerate(program.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if len(line) >= MIN_QUOTE]
    places: dict[str, int] = {}
    milestone = ""
    for line in answer.rpartition("</think>")[2].split("\n"):
        if named := _NAMED.fullmatch(line):
            milestone, line = named[1], named[2]
        quote = line.strip(" \t`*-;")
        if milestone and len(quote) >= MIN_QUOTE:
            numbers = [number for number, text in lines if quote in text or text in quote]
            places[milestone] = max([places.get(milestone, 0), *numbers])
    return [(number, milestone) for milestone, number in places.items() if number]


def parse_rewrite(original: str, rewritten: str) -> list[tuple[int, str]]:
    """
    Finds where a rewritten program prints `milestone: <name>`. Raises [`VerificationError`] if it is not the original
    plus such prints, or the original has some.
    """
    expected = parse_program(original)
    try:
        tree = parse_program(rewritten)
    except ProgramError as error:
        raise VerificationError(f"the rewritten program does not compile: {error}") from error
    if any(map(_printed_milestone, ast.walk(expected))):
        raise VerificationError("the program prints milestones itself")
    rest, prints = without(tree, _printed_milestone)
    if ast.dump(rest) != ast.dump(expected):
        raise VerificationError("the rewritten program is not the original plus prints")
    twins = zip(ast.walk(rest), ast.walk(expected), strict=True)
    lines = {node: twin.lineno for node, twin in twins if isinstance(twin, ast.stmt)}
    # A print at the beginning of a block precedes everything that could have reached its milestone
    return [(lines[before], str(_printed_milestone(statement))) for before, statement in prints if before is not None]


def _printed_milestone(node: ast.AST) -> str | None:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name("print"), args=[ast.Constant(str(text))], keywords=keywords)):
            flush = [(keyword.arg, ast.dump(keyword.value)) for keyword in keywords]
            if flush in ([], [("flush", "Constant(value=True)")]) and (match := _PRINT.search(text)):
                return match[1]
    return None


def possible(original: str, placements: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """
    The placements at which the milestones can have been reached: not all at one line, before the last of the first
    imports, in a string, after an exit, or, but for imports, at one or before any work.
    """
    if len(placements) > 2 and len({line for line, _ in placements}) == 1:
        return []
    tree, last_line = parse_program(original), len(split_lines(original))
    imports, work = set[int](), set[int]()
    excluded = set(range(1, _end_of_imports(tree)))
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                imports.add(node.lineno)
            case ast.Call() | ast.BinOp() | ast.Subscript() | ast.comprehension() | ast.For() | ast.While():
                work.add(getattr(node, "lineno", last_line))
            case ast.JoinedStr() | ast.Constant(str() | bytes()):
                excluded.update(range(node.lineno, node.end_lineno or node.lineno))
        for block in blocks(node):
            for statement in _behind_exit(block):
                excluded.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    first_import, first_work = (min(lines, default=last_line + 1) for lines in (imports, work))
    return [
        (line, milestone)
        for line, milestone in placements
        if line not in excluded
        and (line >= first_import if milestone == IMPORTS else line >= first_work and line not in imports)
    ]


def _behind_exit(block: list[ast.stmt]) -> list[ast.stmt]:
    for index, statement in enumerate(block):
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return block[index + 1 :]
            case ast.Expr(value=ast.Call(func=ast.Name(name) | ast.Attribute(attr=name))) if name in EXITS:
                return block[index + 1 :]
    return []


def _end_of_imports(tree: ast.Module) -> int:
    last = 0
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement.lineno
        elif last:
            break
    return last
