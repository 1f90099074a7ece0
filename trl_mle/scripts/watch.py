"""`trl-mle watch`: follows a run in a terminal, also over a shared disk."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trl_mle.report.training_run import TrainingRun, has_ended, percent, read_run
from trl_mle.rewards.progress import RUNNING_FILE
from trl_mle.scripts.printing import facts_table, figures_table
from trl_mle.showing import PlainConsole, number


LAST_STEPS = 10
REFRESH_S = 2.0
FRESH_S = 30.0  # an older file belongs to a killed run, or to a disk that lags behind
COLUMNS = {
    "reward": "reward", "valid": "mle/valid_rate", "score": "mle/score/mean", "best": "mle/score/best",
    "Δt (s)": "mle/duration_s/mean", "step (s)": "step_time",
}  # fmt: skip


def watch(args: argparse.Namespace) -> int:
    """Waits for a run to begin, and shows it until it ends or Ctrl-C; outside a terminal, shows it once, or raises
    `OSError` if there is no run."""
    console, folder = PlainConsole(), Path(args.folder)
    if not console.is_interactive:
        console.print(view(folder))
        return 0
    with Live(console=console, auto_refresh=False) as live:
        while True:
            ended = has_ended(folder)
            try:
                shown: Group | Text = view(folder)
            except FileNotFoundError:
                shown = Text(f"waiting for a run in {folder} (Ctrl-C ends)")
            live.update(shown, refresh=True)
            if ended:
                return 0
            time.sleep(REFRESH_S)


def view(folder: Path) -> Group:
    run = read_run(folder)
    ended = has_ended(folder)
    facts = facts_table()
    facts.add_row("run", str(folder))
    last = run.history[-1] if run.history else {"step": "none yet"}
    total = f" of {last['max_steps']}" if "max_steps" in last else ""
    facts.add_row("step", f"{last['step']}{total}{', ended' * ended}")
    facts.add_row("now", "ended" if ended else _running(folder))
    for note in run.skipped:
        facts.add_row("note", note)
    return Group(facts, Text(""), _competitions(run), Text(""), _steps(run))


def _competitions(run: TrainingRun) -> Table:
    """A row for each; the score of the best program is on the held-out rows, where there are some."""
    shown = "best, held out" if any("held_out" in row for row in run.best) else "best"
    table = figures_table("competition", "programs", "valid", "valid lately", "Δt (s)", shown)
    best = {row["competition"]: f"{row['reported']:.5g} {'↑' if row['higher_is_better'] else '↓'}" for row in run.best}
    for competition in run.competitions:
        programs = run.programs(competition)
        figures = ["-", "-", "-"]  # if our infrastructure failed every time
        if len(programs):
            rates = programs["valid"].mean(), programs["valid"].iloc[-64:].mean()
            figures = [*map(percent, rates), f"{programs['duration_s'].median():.2f}"]
        table.add_row(competition, str(len(programs)), *figures, best.get(competition, "-"))
    return table


def _running(folder: Path) -> str:
    path = folder / "executions" / RUNNING_FILE
    try:
        age_s = time.time() - path.stat().st_mtime  # noqa: TID251  # the clock of the file's time
        status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no batch is running, or it has just ended
        return "no programs are running: the policy is sampling or training"
    if age_s > FRESH_S:
        return f"no update for {age_s:.0f} s: the run was killed, or hangs"
    return f"{status['done']} of {status['of']} programs done; {status['note']}"


def _steps(run: TrainingRun) -> Table:
    table = figures_table("step", *COLUMNS, left=0)
    for entry in [entry for entry in run.history if "reward" in entry][-LAST_STEPS:]:
        valid = entry.get("mle/valid_rate")
        figures = {name: number(entry.get(key)) for name, key in COLUMNS.items()}
        figures["valid"] = "-" if valid is None else percent(valid)
        table.add_row(str(entry["step"]), *figures.values())
    return table
