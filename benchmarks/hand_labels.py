"""
Judges an instrumenter by the hand-set labels of `milestones/`, whose README.md has the rules: where it places its prints, and what
these report.

    python benchmarks/hand_labels.py    # AstInstrumenter, in seconds
"""

import argparse
import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paired import interval
from rich.table import Table

from trl_mle.execution.program import parse_program, split_lines
from trl_mle.instrumentation import MILESTONES, AstInstrumenter, InstrumentedProgram
from trl_mle.instrumentation.milestones import SUBMISSION
from trl_mle.instrumentation.placements import EXITS
from trl_mle.showing import PlainConsole


FOLDER = Path(__file__).with_name("milestones")

RIGHT, LATE, FALSE, MISSED, SILENT, LOST = "right", "late", "false credit", "missed", "silent", "lost"

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = ast.For | ast.AsyncFor | ast.While


def load_labels() -> dict[str, tuple[str, dict[str, list[int]]]]:
    """The programs and their labels, by file name."""
    labels = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))
    return {name: ((FOLDER / name).read_text(encoding="utf-8"), places) for name, places in labels.items()}


@dataclass(frozen=True)
class Answer:
    """
    A program that a pretrained model wrote, and what happened when it ran.

    Attributes:
        competition (`str`):
            The competition that it was written for.
        half (`str`):
            The half of the competitions, `"choose"` or `"report"`.
        source (`str`):
            The program.
        completed (`frozenset[int]`):
            The lines, from 1, where statements start that completed at least once.
        labels (`dict[str, str]` or `None`):
            For each milestone `"1"` if the program reached it, `"0"` if not, and `"x"` if it did within the statement that failed,
            which no print can follow; `None` for a program without labels.
    """

    competition: str
    half: str
    source: str
    completed: frozenset[int]
    labels: dict[str, str] | None


def load_answers() -> list[Answer]:
    """The programs of `milestones/answers.jsonl`, in their order."""
    answers, openings = [], {}
    for line in (FOLDER / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "opening" in row:  # that its programs have in common
            openings[row["competition"]] = row["opening"]
            continue
        labels = dict(zip(MILESTONES, row["labels"], strict=True)) if row["labels"] else None
        source = openings[row["competition"]] + row["rest"]
        answers.append(Answer(row["competition"], row["half"], source, frozenset(row["completed"]), labels))
    return answers


def reported(program: InstrumentedProgram, completed: frozenset[int]) -> set[str]:
    """The milestones that the program's prints report where the statements that start on these lines complete."""
    return (
        {milestone for milestone, (line, _) in _prints(program) if line in completed} if program.milestones else set()
    )


def verdicts(answer: Answer, program: InstrumentedProgram) -> dict[str, str]:
    """For each milestone whether its report is `"right"`, `"missed"`, `"false credit"`, or `"lost"`: done in the statement that failed."""
    found, labels = reported(program, answer.completed), answer.labels or {}
    kinds = {("1", False): MISSED, ("0", True): FALSE, ("x", False): LOST}
    return {milestone: kinds.get((label, milestone in found), RIGHT) for milestone, label in labels.items()}


def judge(program: InstrumentedProgram, labels: dict[str, list[int]]) -> dict[str, str]:
    """
    Judges the prints of each milestone.

    Args:
        program ([`InstrumentedProgram`]):
            The program with prints.
        labels (`dict[str, list[int]]`):
            For each milestone, the last lines of the statements after which it is reached.

    Returns:
        `dict[str, str]`: For each milestone, `"false credit"` if this is true of one of its prints, else `"right"` if
        this is true of one, else `"late"`. Without a print `"missed"`, or `"silent"` if the program does not reach it.
    """
    places = _Places(parse_program(program.original))
    found: dict[str, set[str]] = {milestone: set() for milestone in MILESTONES}
    for milestone, start in _prints(program):
        found[milestone].add(places.verdict(places.starts[start], milestone, set(labels[milestone])))
    return {
        milestone: next(
            (verdict for verdict in (FALSE, RIGHT, LATE) if verdict in found[milestone]),
            MISSED if labels[milestone] else SILENT,
        )
        for milestone in MILESTONES
    }


def _prints(program: InstrumentedProgram) -> Iterator[tuple[str, tuple[int, int]]]:
    """The milestone of each print, and the start of the statement before it in the original program (line and column)."""
    line = [0]  # line in the original, by line of the program with prints
    for text in split_lines(program.source):
        line.append(line[-1] + (program.nonce not in text))
    for node in ast.walk(parse_program(program.source)):
        for block in _blocks(node):
            before = (0, 0)
            for statement in block:
                match = re.search(f"{program.nonce} (milestone|report): (\\w+)", ast.unparse(statement))
                if not match or any(line[inner.lineno] != line[inner.lineno - 1] for inner in _statements(statement)):
                    before = (line[statement.lineno], statement.col_offset)
                elif match[1] == "milestone":
                    yield match[2], before


class _Places:
    """The statements of a program, and which have run before which."""

    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.parent = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.block = {statement: block for node in ast.walk(tree) for block in _blocks(node) for statement in block}
        self.starts = {(statement.lineno, statement.col_offset): statement for statement in self.block}

    def verdict(self, place: ast.stmt, milestone: str, labels: set[int]) -> str:
        """Judges a print right after the statement `place`."""
        if place.end_lineno in labels and all(
            self.counts_within(outer, place, milestone, labels) for outer in self.ending_with(place)
        ):
            return RIGHT
        return LATE if self.is_late(place, labels, set()) else FALSE

    def ending_with(self, place: ast.stmt) -> list[ast.stmt]:
        """The compound statements of the same function around the place that end on its last line."""
        return [
            outer
            for outer in self.around(place)
            if outer.end_lineno == place.end_lineno and not isinstance(outer, ast.ClassDef)
        ]

    def around(self, node: ast.AST) -> Iterator[ast.stmt]:
        """The statements around a node, up to its function."""
        node = self.parent[node]
        while not isinstance(node, FUNCTIONS | ast.Module):
            if isinstance(node, ast.stmt):
                yield node
            node = self.parent[node]

    def function(self, node: ast.AST) -> ast.AST:
        node = self.parent[node]
        while not isinstance(node, FUNCTIONS | ast.Module):
            node = self.parent[node]
        return node

    def counts_within(self, outer: ast.stmt, place: ast.stmt, milestone: str, labels: set[int]) -> bool:
        """Whether a print in `outer`, whose end is labelled, is also right."""
        if isinstance(outer, LOOPS):
            function = self.function(outer)
            ends = {other.end_lineno for other in self.block if self.function(other) is function}
            return any(label in ends and label < (place.end_lineno or 0) for label in labels)
        if isinstance(outer, ast.With | ast.AsyncWith) and milestone == SUBMISSION:
            return not any(_opens_a_file(item.context_expr) for item in outer.items)  # a file is complete once closed
        return not any(map(_jumps, self.block[place][: self.block[place].index(place) + 1]))

    def is_late(self, place: ast.stmt, labels: set[int], seen: set[ast.AST]) -> bool:
        """Whether a labelled statement has run whenever the place is reached."""
        nodes = [place, *self.around(place)]
        for node in nodes:
            block = self.block[node]
            for before in block[: block.index(node)]:
                if before.end_lineno in labels and not isinstance(before, FUNCTIONS | ast.ClassDef):
                    return True
        function = self.function(place)
        if isinstance(function, ast.Module) or function in seen:
            return False
        calls = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and (node.id if isinstance(node, ast.Name) else node.attr) == function.name
        ]
        statements = [self.statement(call) for call in calls]
        return bool(calls) and all(self.is_late(statement, labels, seen | {function}) for statement in statements)

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parent[node]
        return node


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    return (child for child in ast.walk(node) if isinstance(child, ast.stmt))


def _jumps(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(name) | ast.Attribute(attr=name))):
            return name in EXITS
    return False


def _opens_a_file(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name("open") | ast.Attribute(attr="open")):
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    instrumenter = AstInstrumenter()
    written = [judge(instrumenter.instrument(source), labels) for source, labels in load_labels().values()]
    answers = [
        verdicts(answer, instrumenter.instrument(answer.source))
        for answer in load_answers()
        if answer.labels is not None
    ]
    for title, found, kinds in (
        (f"prints in {len(written)} written programs", written, (RIGHT, LATE, MISSED, FALSE, SILENT)),
        (f"reports of {len(answers)} programs of a pretrained model", answers, (RIGHT, MISSED, FALSE, LOST)),
    ):
        table = Table("milestone", *kinds, title=title)
        for milestone in MILESTONES:
            counts = Counter(program[milestone] for program in found)
            table.add_row(milestone, *(str(counts[kind]) for kind in kinds))
        PlainConsole().print(table)
    reached = [verdict for program in written for verdict in program.values() if verdict != SILENT]
    print(
        f"{reached.count(RIGHT) / len(reached):.3f} of the {len(reached)} milestones that written programs reach are right"
    )
    shares = [sum(verdict == RIGHT for verdict in program.values()) / len(program) for program in answers]
    print("{:.3f} ± {:.3f} of the labels of the pretrained model's programs are right".format(*interval(shares)))


if __name__ == "__main__":
    main()
