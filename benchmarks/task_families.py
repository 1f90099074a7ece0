"""
Measures the generated tasks: for each, a plain program and the reference solution are executed in the sandbox, and
their scores are scaled to the floor (0) and the ceiling (1) of the task. Every second task is one for testing.

    python benchmarks/task_families.py --tasks 200

Writes a line for each task; a second call continues where the first one stopped.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.competitions.families import plain_solution, reference_solution, score_range, structure_of
from trl_mle.competitions.families.structure import DEPENDENCES, FORMS, TRAPS
from trl_mle.execution import LocalExecutor


TOGETHER = 10  # an executor keeps processes of some 130 MB for the tasks that it has seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no task after this time")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-task-families.jsonl"))
    args = parser.parse_args()

    args.output.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.output.read_text().splitlines()] if args.output.exists() else []
    done = {row["task"] for row in rows}
    wanted = [f"task:{'test' if i % 2 else 'train'}/{i // 2}" for i in range(args.tasks)]
    end = time.monotonic() + 60 * args.minutes
    left = [name for name in wanted if name not in done]
    with args.output.open("a") as file:
        for start in track(range(0, len(left), TOGETHER), "ten tasks at a time", console=Console(stderr=True)):
            with LocalExecutor(max_parallel=1, timeout_s=120) as executor:
                for task_id in left[start : start + TOGETHER]:
                    if time.monotonic() > end:
                        break
                    rows.append(measure(task_id, executor))
                    file.write(json.dumps(rows[-1]) + "\n")
                    file.flush()
    show([row for row in rows if row["task"] in wanted])


def measure(task_id: str, executor: LocalExecutor) -> dict[str, Any]:
    """The structure of a task, and the scores of its two programs."""
    started = time.perf_counter()
    task = load_competition(task_id)
    row: dict[str, Any] = {"task": task_id, "made_s": round(time.perf_counter() - started, 3)}
    structure, bounds = structure_of(task_id), score_range(task)
    row |= {**structure._asdict(), "floor": bounds.floor, "ceiling": bounds.ceiling}
    for name, write in (("plain", plain_solution), ("reference", reference_solution)):
        [result] = executor.run_many([(write(task_id), task)])
        score = task.grade(result.submission or b"")
        if score.value is None:
            raise RuntimeError(
                f"{task_id}: the {name} program ends with {result.outcome}: {score.error}\n{result.stderr}"
            )
        assert result.duration_s is not None
        row[name] = round(bounds.normalised(score.value), 4)
        row[f"{name}_s"] = round(result.duration_s, 2)
    return row


def parts(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """All tasks, and the tasks with each choice."""
    yield "all", rows
    for side in ("train", "test"):
        yield f"task:{side}", [row for row in rows if row["task"].startswith(f"task:{side}/")]
    for dependence in DEPENDENCES:
        yield dependence, [row for row in rows if row["dependence"] == dependence]
    yield "no trap", [row for row in rows if not row["traps"]]
    for trap in TRAPS:
        yield trap, [row for row in rows if trap in row["traps"]]
    for metric in FORMS:
        yield metric, [row for row in rows if row["metric"] == metric]


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(
        "", "tasks", "plain", "reference", "reference above plain", "plain below the floor", "reference above the ceiling",
        title="normalised scores (medians) and shares of tasks",
    )  # fmt: skip
    for name, part in parts(rows):
        if part:
            shares = (
                sum(row["reference"] > row["plain"] for row in part) / len(part),
                sum(row["plain"] < 0 for row in part) / len(part),
                sum(row["reference"] > 1 for row in part) / len(part),
            )
            scores = (median(row[program] for row in part) for program in ("plain", "reference"))
            table.add_row(name, str(len(part)), *(f"{x:.2f}" for x in scores), *(f"{x:.0%}" for x in shares))
    Console(width=130).print(table)
    seconds = {name: median(row[name] for row in rows) for name in ("made_s", "plain_s", "reference_s")}
    print(
        f"medians: a task is made in {seconds['made_s']:.3f} s, the plain program takes {seconds['plain_s']:.1f} s, "
        f"the reference {seconds['reference_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
