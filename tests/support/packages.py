"""Small task packages in the layouts of other projects."""

import numpy as np
import pandas as pd


ACCURACY = """\
import pandas as pd


class KindMetrics:
    def __init__(self, value="kind", higher_is_better=True):
        self.value, self.higher_is_better = value, higher_is_better

    def evaluate(self, y_true, y_pred):
        both = y_true.merge(y_pred, on="id", suffixes=("_true", "_pred"))
        return float((both[self.value + "_true"] == both[self.value + "_pred"]).mean())

    def validate_submission(self, submission, ground_truth):
        if len(submission) != len(ground_truth):
            raise Exception("wrong number of rows")
        return "Submission is valid."
"""

# As MLE-Dojo's: of a base class that is not installed, sorts in place, and refuses other columns
RMSE = """\
import numpy as np
from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError


class PriceMetrics(CompetitionMetrics):
    def __init__(self, value="price", higher_is_better=False):
        super().__init__(higher_is_better)
        self.value = value

    def evaluate(self, y_true, y_pred):
        y_true, y_pred = (table.sort_values(by=table.columns[0]).reset_index(drop=True) for table in (y_true, y_pred))
        return np.sqrt(((y_true[self.value] - y_pred[self.value]) ** 2).mean())

    def validate_submission(self, submission, ground_truth):
        if extra := set(submission.columns) - set(ground_truth.columns):
            raise InvalidSubmissionError(f"Extra unexpected columns found in submission: {extra}.")
        return "Submission is valid."
"""

# As SandMLE's: a program that prints JSON, with thresholds of medals
EVALUATOR = """\
import argparse, json, sys
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--submission_path")
submission = pd.read_csv(parser.parse_args().submission_path).set_index("id")
answers = pd.read_csv("answer.csv").set_index("id")
if set(submission.index) != set(answers.index):
    sys.exit("ids differ")
error = (submission["price"].reindex(answers.index) - answers["price"]).abs().mean()
print(json.dumps({"score": round(float(error), 5), "is_lower_better": True, "gold_threshold": 0.1}))
"""


def write_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else content.to_csv(index=False))
    return folder


def tables(target):
    """A train table, the test rows without the target, and the answers."""
    rng = np.random.RandomState(0)
    rows = pd.DataFrame(
        {
            "id": [f"r{i}" for i in rng.permutation(100)],
            "x": rng.normal(size=100).round(3),
            "y": rng.uniform(size=100).round(3),
        }
    )
    rows["price"] = (10 + 3 * rows["x"] + rng.normal(size=100)).round(3)
    rows["kind"] = np.where(rows["x"] + rng.normal(size=100) > 0.5, "high", np.where(rows["y"] > 0.5, "middle", "low"))
    rows = rows[["id", "x", "y", target]]
    return rows[:60], rows[60:].drop(columns=target), rows[60:][["id", target]]


def write_package(folder, layout, **files):
    """Writes a package that `trl-mle import` takes, with other files or another content of them; `None` leaves one out."""
    target = "kind" if layout == "openmle" else "price"
    train, test, answers = tables(target)
    sample = answers.assign(**{target: "low" if target == "kind" else 9.5})
    data, metric = {
        "openmle": ("data", ACCURACY),
        "mle-dojo": ("data", RMSE),
        "sandmle": ("prepared", EVALUATOR),
        "flat": (".", RMSE),
    }[layout]
    public = data if layout == "flat" else f"{data}/public"
    names = {"data": "data/private/test_answer.csv", "prepared": "prepared/public/answer.csv", ".": "test_answer.csv"}
    scorer = {"data": "utils/metric.py", "prepared": "prepared/public/evaluator.py", ".": "metric.py"}[data]
    description = "description.md" if layout == "sandmle" else "description.txt"
    written = {
        f"{public}/train.csv": train,
        f"{public}/test.csv": test,
        f"{public}/sample_submission.csv": sample,
        f"{public}/{description}": f"# {folder.name}\n\n## Overview\n\nPredict {target}.\n",
        names[data]: answers,
        scorer: metric,
    } | {name.format(public=public, scorer=scorer): content for name, content in files.items()}
    return write_files(folder, {name: content for name, content in written.items() if content is not None})
