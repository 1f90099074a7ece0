"""
How long grading takes: submissions of the schema of tabular-playground-series-may-2022 (integer ids, a probability,
ROC AUC), in the order of the answers and shuffled. The time beyond reading the CSV file is the grader's own.

    python benchmarks/grading.py
"""

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS, competition_from_folder


MAY_2022 = "tabular-playground-series-may-2022"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-grading.json"))
    args = parser.parse_args()

    results = []
    for rows in args.rows:
        with tempfile.TemporaryDirectory() as folder:
            submissions, grade = _competition(rows, Path(folder))
            for order, content in submissions.items():
                read_s = _best(partial(_read, content), args.repeats)
                grade_s = _best(partial(grade, content), args.repeats)
                size_mb = len(content) / 1e6
                results.append({"rows": rows, "order": order, "mb": size_mb, "read_s": read_s, "grade_s": grade_s})

    table = Table("rows", "order", "MB", "reading (s)", "grading in all (s)", "own work (s)", title="grading")
    for row in results:
        seconds = (row["read_s"], row["grade_s"], row["grade_s"] - row["read_s"])
        table.add_row(f"{row['rows']:,}", row["order"], f"{row['mb']:.1f}", *(f"{value:.3f}" for value in seconds))
    Console().print(table)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(results, indent=2))


def _competition(rows: int, folder: Path) -> tuple[dict[str, bytes], Callable[[bytes], object]]:
    rng = np.random.RandomState(0)
    answers = pd.DataFrame({"id": np.arange(900_000, 900_000 + rows), "target": rng.randint(0, 2, rows)})
    for name in ("public", "private"):
        (folder / name).mkdir()
    answers.to_csv(folder / "private" / "test.csv", index=False)
    answers.assign(target=0.5).to_csv(folder / "public" / "sample_submission.csv", index=False)
    comp = competition_from_folder(MAY_2022, MLEBENCH_COMPETITIONS[MAY_2022], folder)
    guess = answers.assign(target=0.2 * answers["target"] + 0.8 * rng.rand(rows))
    orders = {"as the answers": guess, "shuffled": guess.sample(frac=1, random_state=rng)}
    for table in orders.values():
        score = comp.grade(table.to_csv(index=False).encode())  # the first call reads the answers
        if not score.valid:
            raise RuntimeError(score.error)
    return {order: table.to_csv(index=False).encode() for order, table in orders.items()}, comp.grade


def _read(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content), low_memory=False)


def _best(action: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
