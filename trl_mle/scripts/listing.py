"""`trl-mle competitions`: lists them with their metrics and rows."""

import argparse
from itertools import groupby
from operator import itemgetter
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from trl_mle.competitions import CompetitionError, list_competitions, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.mirrors import FACTS, PREFIX
from trl_mle.scripts.printing import print_json
from trl_mle.showing import PlainConsole, metric_name


TITLES = {
    "local": "local: real data that ships with scikit-learn",
    "prepared": "prepared: by mlebench prepare",
    "missing": "missing: prepare it with trl-mle prepare <id>",
    "mirror": "mirror: synthetic; use mirror:<id>",
}


def list_all(args: argparse.Namespace) -> int:
    """Prints a table, or JSON."""
    rows = [_row(competition_id, args.data_dir) for competition_id in list_competitions()]
    if args.json:
        print_json(rows)
        return 0
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)  # the longest names fit into 80 columns
    table.add_column("competition", overflow="fold")
    table.add_column("metric")
    table.add_column("test rows", justify="right", max_width=6)
    for status, members in groupby(sorted(rows, key=lambda row: [*TITLES].index(row["status"])), itemgetter("status")):
        table.add_row()
        table.add_row(Text(TITLES[status], style="bold"))
        for row in members:
            metric = metric_name(row["metric"], row["higher_is_better"])
            table.add_row(row["id"].removeprefix(PREFIX), metric, str(row["test_rows"] or "-"))
    console = PlainConsole()
    console.print(table)
    console.print("Generated without end: task:train/<n> and task:test/<n>, n = 0, 1, 2, …")
    return 0


def _row(competition_id: str, data_dir: str | None) -> dict[str, Any]:
    original = competition_id.removeprefix(PREFIX)
    if original in MLEBENCH_COMPETITIONS:
        metric = MLEBENCH_COMPETITIONS[original].metric
        row = {"id": competition_id, "metric": metric, "higher_is_better": METRICS[metric].higher_is_better}
        if original != competition_id:  # generated on first use, not by listing it
            return row | {"status": "mirror", "test_rows": FACTS[original]["rows"] // 4}
    try:
        competition = load_competition(competition_id, data_dir)
    except CompetitionError as error:
        if original not in MLEBENCH_COMPETITIONS:
            raise
        return row | {"status": "missing", "test_rows": None, "error": str(error)}
    return {
        "id": competition_id,
        "metric": competition.metric,
        "higher_is_better": competition.higher_is_better,
        "status": "prepared" if original in MLEBENCH_COMPETITIONS else "local",
        "test_rows": len(pd.read_csv(competition.sample_submission, usecols=[0])),
    }
