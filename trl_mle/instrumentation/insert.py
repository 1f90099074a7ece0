"""Inserts prints as whole lines after statements; keeps comments and formatting."""

import ast
from bisect import bisect_right
from collections.abc import Iterator

from trl_mle.execution.program import InstrumentedProgram, parse_program, split_lines
from trl_mle.instrumentation.milestones import MILESTONES, is_block, marker_print


JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def _places(block: list[ast.stmt], lines: list[str], depth: int = 0) -> Iterator[tuple[ast.stmt, int, str | None]]:
    """All statements in source order, with their depth and the indentation of a line after them, if there is room."""
    first = lines[block[0].lineno - 1]
    indentation = first[: len(first) - len(first.lstrip(" \t\f"))]
    is_one_line = len(indentation) != block[0].col_offset  # as in `if x: y`
    for statement, after in zip(block, [*block[1:], None], strict=True):
        end = statement.end_lineno or statement.lineno
        is_followed = after is not None and (after.lineno == end or _is_future_import(after))
        is_open = isinstance(statement, JUMPS) or lines[end - 1].rstrip("\r\n").endswith("\\")
        yield statement, depth, None if is_one_line or is_followed or is_open else indentation
        for inner in _blocks(statement):
            yield from _places(inner, lines, depth + 1)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if is_block(value):
            yield value
        elif isinstance(value, list):
            yield from (part.body for part in value if isinstance(part, ast.ExceptHandler | ast.match_case))


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def insert_prints(original: str, placements: list[tuple[int, str]], nonce: str) -> InstrumentedProgram:
    """
    Inserts prints after the statements at lines (from 1): for each, the last one that starts on or before it, if there
    is room, unlike after `return` and in `a = 1; b = 2`. The result is not verified yet, see [`verify`].
    """
    lines = split_lines(original)
    body = parse_program(original).body
    places = list(_places(body, lines)) if body else []
    starts = [statement.lineno for statement, _, _ in places]
    # Sorted by end of the statement, inner blocks first, milestones in their order
    prints: set[tuple[int, int, int, str]] = set()
    for line, milestone in placements:
        index = bisect_right(starts, line) - 1
        statement, depth, indentation = places[index] if index >= 0 else (None, 0, None)
        if statement is not None and indentation is not None:
            prints.add((statement.end_lineno or statement.lineno, -depth, MILESTONES.index(milestone), indentation))

    source = lines.copy()
    for end, _, rank, indentation in sorted(prints, reverse=True):
        if not source[end - 1].endswith(("\n", "\r")):
            source[end - 1] += "\n"
        source.insert(end, f"{indentation}{marker_print(nonce, MILESTONES[rank])}\n")
    placed = {rank for _, _, rank, _ in prints}
    return InstrumentedProgram(
        source="".join(source),
        original=original,
        milestones=tuple(milestone for index, milestone in enumerate(MILESTONES) if index in placed),
        nonce=nonce,
    )
