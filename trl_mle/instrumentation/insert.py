"""Inserts prints as whole lines after statements; keeps comments and formatting."""

import ast
from bisect import bisect_right

from trl_mle.execution.program import InstrumentedProgram, parse_program, split_lines
from trl_mle.instrumentation.milestones import MILESTONES, blocks, is_future_import, marker_print


JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def _places(tree: ast.Module, lines: list[str]) -> list[tuple[ast.stmt, str | None]]:
    """All statements in source order, with the indentation of a line after them, if there is room."""
    places = []
    for node in ast.walk(tree):
        for block in blocks(node):
            first = lines[block[0].lineno - 1]
            indentation = first[: len(first) - len(first.lstrip(" \t\f"))]
            is_one_line = len(indentation) != block[0].col_offset  # as in `if x: y`
            for statement, after in zip(block, [*block[1:], None], strict=True):
                end = statement.end_lineno or statement.lineno
                is_followed = after is not None and (after.lineno == end or is_future_import(after))
                is_open = isinstance(statement, JUMPS) or lines[end - 1].rstrip("\r\n").endswith("\\")
                places.append((statement, None if is_one_line or is_followed or is_open else indentation))
    return sorted(places, key=lambda place: place[0].lineno)


def insert_prints(original: str, placements: list[tuple[int, str]], nonce: str) -> InstrumentedProgram:
    """
    Inserts prints after the statements at lines (from 1): for each, the last one that starts on or before it, if there
    is room, unlike after `return` and in `a = 1; b = 2`. The result is not verified yet, see [`verify`].
    """
    lines = split_lines(original)
    places = _places(parse_program(original), lines)
    starts = [statement.lineno for statement, _ in places]
    # Sorted by end of the statement, inner blocks first, milestones in their order
    prints: set[tuple[int, int, int, str]] = set()
    for line, milestone in placements:
        index = bisect_right(starts, line) - 1
        statement, indentation = places[index] if index >= 0 else (None, None)
        if statement is not None and indentation is not None:
            end = statement.end_lineno or statement.lineno
            prints.add((end, -len(indentation), MILESTONES.index(milestone), indentation))

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
