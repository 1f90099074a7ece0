"""Reads the output folder of a training run, finished or not."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from trl_mle.competitions.task_set import FEW
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards.program_log import read_lines
from trl_mle.rewards.progress import METRICS_FILE
from trl_mle.solutions.best_solutions import UNFINISHED


@dataclass
class TrainingRun:
    """The data of a run, as training writes it. `executions` has a row for each program, in the order in which they
    ended, with `reported` (the score on the held-out rows, if any), `valid`, `untrained` (valid, but not observed to
    train a model) and a column for each milestone."""

    history: list[dict[str, Any]] = field(default_factory=list)  # the trainer's log
    executions: pd.DataFrame = field(default_factory=pd.DataFrame)
    best: list[dict[str, Any]] = field(default_factory=list)  # solutions' records, with `source` and `reported`
    skipped: list[str] = field(default_factory=list)  # notes on lines that cannot be read

    @property
    def training_s(self) -> float | None:
        """Sum of the steps' times in seconds, each the mean since the last log; `None` if none has been logged."""
        times = pd.Series(self.metric("step_time"), dtype=float)
        steps = pd.Series(times.index).diff().fillna(pd.Series(times.index))
        return float((times.to_numpy() * steps.to_numpy()).sum()) if len(times) else None

    @cached_property
    def competitions(self) -> list[str]:
        """Ids of those that programs were written for, in the order in which they first came: the first [`FEW`]."""
        return [] if self.executions.empty else list(dict.fromkeys(self.executions["competition"]))[:FEW]

    def metric(self, key: str) -> dict[int, float]:
        """Values of a logged metric by step."""
        return {entry["step"]: entry[key] for entry in self.history if entry.get(key) is not None}

    def programs(self, competition: str | None = None) -> pd.DataFrame:
        """The programs of one or all competitions, numbered from 1, without failures of our infrastructure."""
        table = self.executions
        if table.empty:
            return table
        table = table[table["outcome"] != "infrastructure"]
        if competition is not None:
            table = table[table["competition"] == competition]
        return table.set_axis(range(1, len(table) + 1))


def read_run(folder: Path) -> TrainingRun:
    """Reads the output folder of a run; raises `OSError` if it holds none. Skips lines and files that are not
    whole."""
    skipped: list[str] = []
    history, executions = read_metrics(folder), _executions(folder / "executions", skipped)
    if not history and executions.empty:
        runs = sorted(str(path.parent) for path in folder.glob(f"*/{METRICS_FILE}"))
        hint = f"did you mean {' or '.join(runs[:3])}?" if runs else "has the run begun, and is this its output_dir?"
        raise FileNotFoundError(f"{folder} holds no {METRICS_FILE} or executions: {'; '.join(skipped) or hint}")
    run = TrainingRun(history, executions, skipped=skipped)
    run.best = [best for best in _best(folder / "best_solutions") if best["competition"] in run.competitions]
    return run


def has_ended(folder: Path) -> bool:
    """Whether training has ended, by the last line of its metrics."""
    written = read_metrics(folder)
    return bool(written and written[-1].get("ended", False))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of each step so far, as [`~trl_mle.trainer.MLEProgressCallback`] writes them. For steps that a
    resumed run repeats, the later metrics count."""
    entries: list[dict[str, Any]] = []
    for entry in (line for line in read_lines(folder / METRICS_FILE)[0] if "step" in line):  # others are not ours
        while entries and entries[-1]["step"] > entry["step"]:
            entries.pop()
        before = entries.pop() if entries and entries[-1]["step"] == entry["step"] else {}
        entries.append(before | entry)
    return entries


def _executions(folder: Path, skipped: list[str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("rank-*.jsonl")):
        lines, problems = read_lines(path)
        skipped += [f"{problem}: it is skipped" for problem in problems]
        rows += lines
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows)
    scores = [row["score"] or {} for row in rows]
    for column, key in (("score", "value"), ("held_out", "held_out")):
        table[column] = [score.get(key) for score in scores]
    table["time"] = pd.to_datetime(table["time"], format="ISO8601")
    table = table.sort_values("time", kind="stable", ignore_index=True)
    for column in ("score", "held_out", "reward", "duration_s"):
        table[column] = table[column].astype(float)
    table["reported"] = table["held_out"].fillna(table["score"])
    table["valid"] = table["score"].notna()
    for milestone in MILESTONES:
        table[milestone] = [milestone in names for names in table["milestones"]]
    # If no program reached a milestone, programs were not instrumented
    table["untrained"] = table["valid"] & ~table["model_trained"] & any(table["milestones"])
    return table


def _best(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*/score.json")):
        if path.parent.suffix not in UNFINISHED:
            with suppress(OSError, ValueError, KeyError):  # it is being replaced, or was left empty by a power cut
                record = json.loads(path.read_text(encoding="utf-8"))
                source = path.with_name("solution.py").read_text(encoding="utf-8", errors="replace")
                yield record | {"source": source, "reported": record.get("held_out", record["score"])}


def percent(share: float) -> str:
    """A share in per cent; 0% means none, and 100% means all."""
    text = f"{share:.0%}"
    if text == "0%" and share > 0:
        return "<1%"
    return ">99%" if text == "100%" and share < 1 else text


def best_so_far(scores: pd.Series, higher_is_better: bool, reported: pd.Series) -> pd.Series:
    """The reported score of the program with the best score up to each program; NaN before the first valid program."""
    best = scores.cummax() if higher_is_better else scores.cummin()
    is_new = scores.notna() & (best.ffill() != best.ffill().shift())
    return reported.where(is_new).ffill()
