"""`trl-mle watch`: follows a run in a terminal, also over a shared disk."""

import json
import time
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trl_mle.report.training_run import TrainingRun, has_ended, percent, read_run
from trl_mle.rewards.progress import RUNNING_FILE
from trl_mle.scripts.printing import facts_table
from trl_mle.showing import PlainConsole


LAST_STEPS = 10
REFRESH_S = 2.0
FRESH_S = 30.0  # an older file belongs to a killed run, or to a disk that lags behind


def watch(folder: Path) -> int:
    """
    Waits for a run to begin, and shows it until it ends or Ctrl-C. If the output is not a terminal that can be
    redrawn, shows it once.

    Raises:
        `OSError`: The folder holds no run, and the output is not such a terminal.
    """
    console = PlainConsole()
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
    """Renders the current state of a run."""
    run = read_run(folder, folder.name)
    facts = facts_table()
    facts.add_row("run", str(folder))
    facts.add_row("step", _step(run, folder))
    facts.add_row("programs", _programs(run))
    facts.add_row("now", _running(folder))
    for note in run.skipped:
        facts.add_row("note", note)
    parts: list[Table | Text] = [facts, Text(""), _steps(run)]
    if run.competitions:
        parts += [Text(""), _of_competitions(run)]
    return Group(*parts)


def _of_competitions(run: TrainingRun) -> Table:
    """A row for each; the best score is on the held-out rows, where there are some."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("competition", "programs", "valid", "Δt (s)", "best"):
        table.add_column(name, justify="left" if name == "competition" else "right", overflow="fold")
    best = {row["competition"]: f"{row['reported']:.5g} {'↑' if row['higher_is_better'] else '↓'}" for row in run.best}
    for competition in run.competitions:
        programs = run.programs(competition)
        figures = ["-", "-"]  # if our infrastructure failed every time
        if len(programs):
            figures = [percent(programs["valid"].mean()), f"{programs['duration_s'].median():.2f}"]
        table.add_row(competition, str(len(programs)), *figures, best.get(competition, "-"))
    return table


def _step(run: TrainingRun, folder: Path) -> str:
    if not run.history:
        return "none yet"
    last = run.history[-1]
    total = f" of {last['max_steps']}" if "max_steps" in last else ""
    return f"{last['step']}{total}{', ended' if has_ended(folder) else ''}"


def _programs(run: TrainingRun) -> str:
    table = run.programs()
    if table.empty:
        return "none yet"
    lately = table.iloc[-64:]
    return (
        f"{len(table)}, {percent(table['valid'].mean())} valid; of the last {len(lately)}: {percent(lately['valid'].mean())} valid, "
        f"median {lately['duration_s'].median():.2f} s"
    )


def _running(folder: Path) -> str:
    path = folder / "executions" / RUNNING_FILE
    try:
        age_s = time.time() - path.stat().st_mtime  # noqa: TID251  # the clock of the file's time
        status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no batch is running, or it has just ended
        return "ended" if has_ended(folder) else "no programs are running: the policy is sampling or training"
    if age_s > FRESH_S:
        return f"no update for {age_s:.0f} s: the run was killed, or hangs"
    slots = f", {status['slots']} at a time" if status["slots"] is not None else ""
    return f"{status['done']} of {status['of']} programs done{slots}; {status['note']}"


def _steps(run: TrainingRun) -> Table:
    columns = {
        "reward": ("reward", "{:.2f}".format),
        "valid": ("mle/valid_rate", percent),
        "score": ("mle/score/mean", "{:.4g}".format),
        "best": ("mle/score/best", "{:.4g}".format),
        "Δt (s)": ("mle/duration_s/mean", "{:.2f}".format),
        "step (s)": ("step_time", "{:.1f}".format),
    }
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("step", *columns):
        table.add_column(name, justify="right")
    for entry in [entry for entry in run.history if "reward" in entry][-LAST_STEPS:]:
        cells = [form(entry[key]) if entry.get(key) is not None else "-" for key, form in columns.values()]
        table.add_row(str(entry["step"]), *cells)
    return table
