"""`trl-mle compare`: tables across the results of several evaluations."""

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from trl_mle.evaluation import result_tables
from trl_mle.report.training_run import TrainingRun, percent, read_run
from trl_mle.scripts.printing import figures_table
from trl_mle.showing import PlainConsole, number


def compare(args: argparse.Namespace) -> int:
    """Compares systems across the results of several evaluations, next to the paper's figures."""
    rows = result_tables.read_results([Path(folder) for folder in args.folders])
    of_runs = {
        f"training ({run}) beside sampled programs, at most as many": training_table(read_run(Path(run)), rows)
        for run in args.runs
    }
    if args.markdown is not None:
        Path(args.markdown).write_text(result_tables.to_markdown(rows, of_runs), encoding="utf-8")
    tables = {
        "programs, mean ± standard error over runs": [line[:6] for line in result_tables.program_table(rows)],
        "best score, mean ± standard error over runs (*: the best)": _best_scores(rows),
        "best of k": result_tables.best_of_k_table(rows),
        **of_runs,
    }
    if result_tables.chosen_by_validation(rows):
        # For comparison with published figures
        tables["best score if chosen and scored on all hidden rows"] = _best_scores(result_tables.on_all_rows(rows))
    console = PlainConsole()
    for title, lines in tables.items():
        if len(lines) > 1:  # more than a header
            console.print(_table(title, lines))
    return 0


def _best_scores(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The main table with systems as rows, because many columns would not fit a terminal."""
    head, *lines = result_tables.main_table(rows, reported=("Qwen2.5-3B RL",))
    return [
        ["competition", "system", "metric", "best score"],
        *([line[0], name, line[1], score] for line in lines for name, score in zip(head[2:], line[2:], strict=True)),
    ]


def training_table(run: TrainingRun, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """What a run has found, and the expected best of as many sampled programs, or of the most below that are known.
    Raises `ValueError` if the run held out other rows."""
    lines = [["competition", "programs of", "number", "valid", "any valid", "best", "95% interval"]]
    best = {one["competition"]: one for one in run.best}
    for competition in run.competitions:
        programs, found = run.programs(competition), best.get(competition, {})
        valid = percent(programs["valid"].mean()) if len(programs) else "-"
        score = number(found.get("reported"))
        lines.append([competition, "training", f"{len(programs):,}", valid, "-", score, "-"])
        for row in (row for row in rows if row["competition"] == competition):
            if found and (share := found.get("holdout", 0.0)) != row["holdout"]:
                raise ValueError(f"--runs: training held out {share:g} of {competition}: evaluate with its --holdout")
            points = [point for point in row["best_of_k"] if point["k"] <= len(programs)]
            for point in points[-1:]:
                interval = f"{number(point['low'])} to {number(point['high'])}"
                shares = [percent(row["valid_rate"]), f"{point['valid_rate']:.0%}"]
                figures = [f"{point['k']:,}", *shares, number(point["score"]), interval]
                lines.append([competition, row["policy"], *figures])
    return lines


def _table(title: str, lines: list[list[str]]) -> Table:
    """A table whose first line is the header; a repeated competition or system is left blank."""
    table = figures_table(*lines[0], left=2, title=title)
    for above, line in pairwise(lines):
        first = "" if line[0] == above[0] else line[0]
        second = "" if line[:2] == above[:2] else line[1]
        table.add_row(first, second, *line[2:])
    return table
