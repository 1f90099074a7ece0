"""What a training run has left in its output folder so far, be it finished or not."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards.best_solutions import UNFINISHED


@dataclass
class TrainingRun:
    """
    A run as `recipes/train_mle.py` leaves it.

    Args:
        folder (`Path`):
            Its output folder.
        name (`str`):
            What to call it. Runs of one name differ in their seed.
        history (`list[dict]`):
            The trainer's log, up to the last checkpoint while it is running.
        executions (`DataFrame`):
            A row for each executed program, in the order in which they ended: `seconds` (since the first), `competition`,
            `outcome`, `detail`, `duration_s`, `score`, `reward`, `valid`, `untrained` (valid, and never seen to train a model)
            and a column for each milestone.
        solutions (`dict[str, list[dict]]`):
            For each competition the valid solutions of the pool in the last checkpoint, with `id`, `parent_id`, `source`,
            `score` and `step`.
        best (`list[dict]`):
            For each competition the best solution so far: `competition`, `metric`, `higher_is_better`, `score`, `source`.
    """

    folder: Path
    name: str
    history: list[dict[str, Any]] = field(default_factory=list)
    executions: pd.DataFrame = field(default_factory=pd.DataFrame)
    solutions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    best: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def directions(self) -> dict[str, bool]:
        """For each competition with a valid program, whether a larger score is better."""
        return {best["competition"]: best["higher_is_better"] for best in self.best}

    def metric(self, key: str) -> dict[int, float]:
        """A metric of the trainer's log by step."""
        return {entry["step"]: entry[key] for entry in self.history if entry.get(key) is not None}

    def programs(self, competition: str | None = None) -> pd.DataFrame:
        """The executed programs, of one competition or of all, failures of our own infrastructure left out."""
        table = self.executions
        if table.empty:
            return table
        table = table[table["outcome"] != "infrastructure"]
        return table if competition is None else table[table["competition"] == competition]


def read_run(folder: Path, name: str) -> TrainingRun:
    """
    Reads the output folder of a run.

    Args:
        folder (`Path`):
            The folder.
        name (`str`):
            What to call the run.

    Raises:
        `OSError`: There is nothing of a run.
    """
    state = _newest(folder, "trainer_state.json")
    history = json.loads(state.read_text(encoding="utf-8"))["log_history"] if state is not None else []
    executions = _executions(folder / "executions")
    if not history and executions.empty:
        raise FileNotFoundError(
            f"{folder} holds neither executions/*.jsonl nor trainer_state.json: is it a run's output?"
        )
    pool = _newest(folder, "solution_pool.json")
    return TrainingRun(
        folder,
        name,
        history,
        executions,
        _solutions(json.loads(pool.read_text(encoding="utf-8"))["solutions"]) if pool is not None else {},
        [
            _best(path.parent)
            for path in sorted((folder / "best_solutions").glob("*/score.json"))
            if path.parent.suffix not in UNFINISHED
        ],
    )


def _newest(folder: Path, name: str) -> Path | None:
    """The file of the last checkpoint, or of the end."""
    found = [path for path in (folder / name, *folder.glob(f"checkpoint-*/{name}")) if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _executions(folder: Path) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for path in folder.glob("rank-*.jsonl*"):
        whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")  # the last line may be on its way
        rows += [json.loads(line) for line in whole.splitlines()]
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows)
    table["time"] = pd.to_datetime(table["time"], format="ISO8601")
    table = table.sort_values("time", kind="stable", ignore_index=True)
    table["seconds"] = (table["time"] - table["time"].iloc[0]).dt.total_seconds()
    for column in ("score", "reward", "duration_s"):
        table[column] = table[column].astype(float)
    table["valid"] = table["score"].notna()
    reached = [set(names) for names in table["milestones"]]
    for milestone in MILESTONES:
        table[milestone] = [milestone in names for names in reached]
    # If no program has reached a milestone, they were not instrumented
    table["untrained"] = table["valid"] & ~table["model_trained"] & any(reached)
    return table


def _solutions(state: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    from trl_mle.trainer.solution_pool import Solution  # with TRL, which takes seconds

    return {
        competition: [entry | {"id": Solution(**entry).id} for entry in entries if entry["score"] is not None]
        for competition, entries in state.items()
    }


def _best(folder: Path) -> dict[str, Any]:
    record = json.loads((folder / "score.json").read_text(encoding="utf-8"))
    return record | {"source": (folder / "solution.py").read_text(encoding="utf-8", errors="replace")}


def ancestors(solution: dict[str, Any], solutions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A solution's line, itself first, as far as the pool still has it."""
    known = {entry["id"]: entry for entry in solutions}
    line = [solution]
    while (parent := known.get(line[-1]["parent_id"])) is not None and parent not in line:
        line.append(parent)
    return line


def best_so_far(scores: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """The best score up to each program; NaN before the first valid one."""
    best = np.fmax if higher_is_better else np.fmin
    return best.accumulate(scores) if len(scores) else scores
