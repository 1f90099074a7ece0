"""Reads the output folder of a training run, finished or not."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd

from trl_mle.competitions.task_set import FEW
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards.program_log import read_lines
from trl_mle.rewards.progress import METRICS_FILE
from trl_mle.solutions.best_solutions import UNFINISHED


# What is read of a record of an execution, and of a best solution: files of other tools may have the same names
EXECUTION = {"time", "competition", "outcome", "detail", "score", "reward", "duration_s", "milestones"}
BEST = {"competition", "metric", "higher_is_better", "score"}
STATE_FILE = "trainer_state.json"  # of transformers
FOREIGN = "it is not what this version of trl-mle writes"


@dataclass
class TrainingRun:
    """The data of a run, as `recipes/train_mle.py` writes it. Runs with the same name differ in their seed."""

    folder: Path
    name: str
    history: list[dict[str, Any]] = field(default_factory=list)  # the trainer's log, up to the last step logged
    # A row for each line of `executions/rank-*.jsonl`, in the order in which programs ended, with `reported` (the score on the
    # held-out rows, if any), `valid`, `untrained` (valid, but not observed to train a model) and a column for each milestone
    executions: pd.DataFrame = field(default_factory=pd.DataFrame)
    # For each competition (of many, of those in `competitions`), the record of the best solution so far, with its `source`
    # and `reported`
    best: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # notes on unreadable files, with the reason

    @cached_property
    def holds_out(self) -> bool:
        """Whether scores are reported on held-out rows, which training did not see."""
        return not self.executions.empty and bool(self.executions["held_out"].notna().any())

    @property
    def training_s(self) -> float | None:
        """Sum of the steps' times in seconds; `None` if no step has been logged. A time is the mean since the last log."""
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


def read_run(folder: Path, name: str) -> TrainingRun:
    """
    Reads the output folder of a run; raises `OSError` if it holds none. If the run is active or was killed while saving, a
    file may be truncated: it is skipped, in favour of the next older one if available.
    """
    skipped: list[str] = []
    # Without metrics, the run is another trainer's, whose log is known up to its last checkpoint
    history = read_metrics(folder) or _trainers_log(folder, skipped)
    executions = _executions(folder / "executions", skipped)
    if not history and executions.empty:
        raise FileNotFoundError(
            f"{folder} holds no metrics.jsonl, executions/*.jsonl or trainer_state.json that can be read: "
            + ("; ".join(skipped) or _hint(folder))
        )
    run = TrainingRun(folder, name, history, executions, skipped=skipped)
    run.best = _best(folder / "best_solutions", skipped)
    if len(run.best) > FEW:
        run.best = [best for best in run.best if best["competition"] in run.competitions]
    return run


def _hint(folder: Path) -> str:
    runs = sorted(str(path.parent) for path in folder.glob(f"*/{METRICS_FILE}"))
    return f"did you mean {' or '.join(runs[:3])}?" if runs else "has the run begun, and is this its output_dir?"


def has_ended(folder: Path) -> bool:
    """Whether training has ended, by the last line of its metrics."""
    written = read_metrics(folder)
    if not any("ended" in entry for entry in written):
        # Another trainer's run: its state is saved at the end
        return (folder / STATE_FILE).is_file()
    return bool(written[-1].get("ended", False))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """
    Reads the metrics of each step so far, as [`~trl_mle.trainer.MLEProgressCallback`] writes them. For steps that a
    resumed run repeats, the later metrics count. The first entry of a run that has begun is step 0, without metrics;
    the last one has `ended`, if training has.
    """
    path = folder / METRICS_FILE
    entries: list[dict[str, Any]] = []
    for entry in filter(_is_step, read_lines(path)[0]):
        while entries and entries[-1]["step"] > entry["step"]:
            entries.pop()
        before = entries.pop() if entries and entries[-1]["step"] == entry["step"] else {}
        entries.append(before | entry)
    return entries


def _is_step(entry: object) -> TypeGuard[dict[str, Any]]:
    """Whether an entry of a log is a step's."""
    return isinstance(entry, dict) and isinstance(entry.get("step"), int)


def _trainers_log(folder: Path, skipped: list[str]) -> list[dict[str, Any]]:
    """The log in the newest readable state of the trainer, of the last checkpoint or of the run's end."""
    paths = [path for path in (folder / STATE_FILE, *folder.glob(f"checkpoint-*/{STATE_FILE}")) if path.is_file()]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # deleted meanwhile, or truncated
            skipped.append(_note(path, error))
            continue
        log = state.get("log_history") if isinstance(state, dict) else None
        if isinstance(log, list) and all(map(_is_step, log)):
            return log
        skipped.append(_note(path, FOREIGN))
    return []


def _note(path: Path, error: Exception | str) -> str:
    why = "it is empty" if path.is_file() and not path.stat().st_size else error
    return f"{path} is skipped: {why}"


def _executions(folder: Path, skipped: list[str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("rank-*.jsonl")):
        lines, problems = read_lines(path)
        programs = [row for row in lines if row.keys() >= EXECUTION]
        if len(programs) < len(lines):
            skipped.append(_note(path, FOREIGN))
        skipped += [f"{problem}: it is skipped" for problem in problems]
        rows += programs
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


def _best(folder: Path, skipped: list[str]) -> list[dict[str, Any]]:
    best = []
    for path in sorted(folder.glob("*/score.json")):
        if path.parent.suffix in UNFINISHED:
            continue
        program = path.with_name("solution.py")
        try:
            source = program.read_text(encoding="utf-8", errors="replace")
            record = json.loads(path.read_text(encoding="utf-8"))
            if not (isinstance(record, dict) and record.keys() >= BEST):
                raise ValueError(FOREIGN)
            best.append(record | {"source": source, "reported": record.get("held_out", record["score"])})
        except OSError as error:
            skipped.append(_note(program, error))
        except ValueError as error:
            skipped.append(_note(path, error))
    return best


def percent(share: float) -> str:
    """A share as a whole per cent; 0% means none, and 100% means all."""
    text = f"{share:.0%}"
    if text == "0%" and share > 0:
        return "<1%"
    return ">99%" if text == "100%" and share < 1 else text


def best_so_far(scores: pd.Series, higher_is_better: bool, reported: pd.Series) -> pd.Series:
    """The reported score of the program with the best score up to each program; NaN before the first valid program."""
    best = scores.cummax() if higher_is_better else scores.cummin()
    is_new = scores.notna() & (best.ffill() != best.ffill().shift())
    return reported.where(is_new).ffill()
