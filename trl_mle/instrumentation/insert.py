"""Inserts prints as whole lines after statements; keeps comments and formatting."""

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trl_mle.execution.program import InstrumentedProgram, parse_program, split_lines
from trl_mle.instrumentation.milestones import MILESTONES, marker_print


INDENTATION = " \t\f"
ROOMY = (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
PARTS = (ast.excepthandler, ast.match_case)
JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """The place after a statement of a block."""

    block: list[ast.stmt]
    index: int
    owner: "_Place | None"  # the compound statement the block belongs to
    depth: int

    @property
    def statement(self) -> ast.stmt:
        return self.block[self.index]


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for _, children in ast.iter_fields(node):
        if isinstance(children, list) and children:
            if isinstance(children[0], ast.stmt):
                yield children
            elif isinstance(children[0], PARTS):
                for child in children:
                    yield child.body


def _places(block: list[ast.stmt], owner: _Place | None = None, depth: int = 0) -> Iterator[_Place]:
    """All places in source order, each statement before its inner statements."""
    for index, statement in enumerate(block):
        place = _Place(block, index, owner, depth)
        yield place
        if "body" in statement._fields or isinstance(statement, ast.Match):
            for inner in _blocks(statement):
                yield from _places(inner, place, depth + 1)


def _settle(place: _Place, lines: list[str]) -> tuple[_Place, str] | None:
    """The line and indentation to insert at, at the place or soon after it; `None` if there is none."""
    first = place.block[0]
    line = lines[first.lineno - 1]
    indentation = line[: len(line) - len(line.lstrip(INDENTATION))]
    if len(indentation) != first.col_offset:
        # `with open(path) as file: data = json.load(file)` has no room inside. Code after a one-line `if`, `try` or
        # `def` is reached without the step.
        within = place.owner and isinstance(place.owner.statement, ROOMY)
        return _settle(place.owner, lines) if within and place.owner else None
    end = place.statement.end_lineno or place.statement.lineno
    if place.index + 1 < len(place.block):
        after = place.block[place.index + 1]
        is_future_import = isinstance(after, ast.ImportFrom) and after.module == "__future__"
        if after.lineno == end or is_future_import:
            return _settle(replace(place, index=place.index + 1), lines)
    if isinstance(place.statement, JUMPS) or lines[end - 1].rstrip("\r\n").endswith("\\"):
        return None
    return place, indentation


def insert_prints(original: str, placements: list[tuple[int, str]], nonce: str) -> InstrumentedProgram:
    """
    Inserts a print after the statement at each of the given lines: the last one that starts on or before it. So the first
    line of a loop means the whole loop. If a place cannot take a separate line, the print moves to the next place that is
    reached only after the step, such as after the last of `a = 1; b = 2`; without one (after `return`), it is dropped.

    Takes lines (from 1) with their milestones. The result is not verified yet, see [`verify`].
    """
    lines = split_lines(original)
    places = list(_places(parse_program(original).body))
    starts = [place.statement.lineno for place in places]
    # Sorted by end of the statement, inner blocks first, milestones in their order
    prints: set[tuple[int, int, int, str]] = set()
    for line, milestone in placements:
        index = bisect_right(starts, line) - 1
        settled = _settle(places[index], lines) if index >= 0 else None
        if settled is not None:
            place, indentation = settled
            end = place.statement.end_lineno or place.statement.lineno
            prints.add((end, -place.depth, MILESTONES.index(milestone), indentation))

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
