"""`trl-mle compare`: tables across the results of several evaluations."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from trl_mle.evaluation import result_tables
from trl_mle.report.training_run import TrainingRun, percent, read_run
from trl_mle.scripts.printing import print_json
from trl_mle.showing import PlainConsole, number, terminal_line


MOST_COLUMNS = 6  # that fit a terminal of 80 characters


def compare(args: argparse.Namespace) -> int:
    """Compares systems across the results of several evaluations, next to the paper's figures."""
    rows = result_tables.read_results([Path(folder) for folder in args.folders])
    warnings = result_tables.uneven_runs(rows)
    if result_tables.have_different_holdouts(rows):
        warnings.append("the evaluations hold out different shares: all are compared by the scores on all hidden rows")
        rows = result_tables.on_all_rows(rows)
    for line in warnings:
        print(f"trl-mle: warning: {terminal_line(line)}", file=sys.stderr)
    if args.markdown is not None:
        Path(args.markdown).write_text(result_tables.to_markdown(rows), encoding="utf-8")
    if args.json:
        print_json(rows)
        return 0
    scores = result_tables.main_table(rows, reported=("Qwen2.5-3B RL",))
    programs = [line[:6] for line in result_tables.program_table(rows)]
    console = PlainConsole()
    console.print(_table("programs, mean ± standard error over runs", programs))
    for part in _parts(scores):
        console.print(_table("best score, mean ± standard error over runs", part))
    if len(curves := result_tables.best_of_k_table(rows)) > 1:  # more than its header
        console.print(_table("best of k", curves))
    for run in args.runs:
        training = training_table(read_run(Path(run), run), rows)
        console.print(_table(f"training ({run}) beside sampled programs, at most as many", training))
    if result_tables.chosen_by_validation(rows):
        console.print(
            "The best programs are chosen on one part of the hidden rows and scored on the other. For comparison with "
            "published figures, the next table chooses and scores on all rows."
        )
        for part in _parts(result_tables.main_table(result_tables.on_all_rows(rows), reported=("Qwen2.5-3B RL",))):
            console.print(_table("chosen by the test score", part))
    return 0


def training_table(run: TrainingRun, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """What a run has found, and the expected best of as many sampled programs, or of the most below that are known."""
    lines = [["competition", "programs of", "number", "any valid", "best", "95% interval"]]
    best = {one["competition"]: one["reported"] for one in run.best}
    for competition in run.competitions:
        programs = run.programs(competition)
        valid = percent(programs["valid"].mean())
        lines.append([competition, "training", f"{len(programs):,}", valid, number(best.get(competition)), "-"])
        for row in (row for row in rows if row["competition"] == competition):
            points = [point for point in row["best_of_k"] if point["k"] <= len(programs)]
            for point in points[-1:]:
                interval = f"{number(point['low'])} to {number(point['high'])}"
                valid = f"{point['valid_rate']:.0%}"
                lines.append([competition, row["policy"], f"{point['k']:,}", valid, number(point["score"]), interval])
    return lines


def _parts(lines: list[list[str]]) -> list[list[list[str]]]:
    """Splits a table into parts that fit a terminal; a table with too many columns gets the systems as rows."""
    if len(lines[0]) > MOST_COLUMNS:
        lines = [list(column) for column in zip(*lines, strict=True)]
    step = MOST_COLUMNS - 1
    return [[[line[0], *line[i : i + step]] for line in lines] for i in range(1, len(lines[0]), step)]


def _table(title: str, lines: list[list[str]]) -> Table:
    """Makes a table whose first line is the header; a repeated competition or system is left blank."""
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in lines[0]:
        table.add_column(
            name,
            overflow="fold",
            justify="left" if name in ("competition", "metric", "system") else "right",
        )
    for above, line in pairwise(lines):
        first = "" if line[0] == above[0] else line[0]
        second = "" if line[:2] == above[:2] else line[1]
        table.add_row(*map(_cell, (first, second, *line[2:])))
    return table


def _cell(text: str) -> Text | str:
    return Text(text[2:-2], style="bold") if isinstance(text, result_tables.Best) else text
