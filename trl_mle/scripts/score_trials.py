"""
A program for the sandbox, not for this process: scores trial submissions with the metric of another package, which is not
trusted. Reads `input/package` and `input/trials`, and writes what it found as submission.csv.
"""

import contextlib
import importlib.util
import io
import json
import os
import runpy
import sys
import types
from typing import Any

import pandas as pd


PACKAGE, TRIALS = "input/package", "input/trials"


class CompetitionMetrics:
    """The base class that MLE-Dojo's metrics import."""

    def __init__(self, higher_is_better: bool = True):
        self.higher_is_better = higher_is_better


class InvalidSubmissionError(Exception):
    """The exception that MLE-Dojo's metrics import."""


def load_metric() -> Any:
    """An instance of the class in metric.py."""
    for name in ("mledojo", "mledojo.metrics", "mledojo.metrics.base"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(
            CompetitionMetrics=CompetitionMetrics, InvalidSubmissionError=InvalidSubmissionError, __path__=[]
        )
    sys.path.insert(0, PACKAGE)
    spec = importlib.util.spec_from_file_location("metric", f"{PACKAGE}/metric.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["metric"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == "metric" and callable(getattr(kind, "evaluate", None)):
            return kind()
    raise LookupError("metric.py has no class with a method evaluate")


def score_by_class(metric: Any, trial: str) -> float:
    def tables() -> tuple[pd.DataFrame, pd.DataFrame]:  # it may change them
        return pd.read_csv(f"{PACKAGE}/test_answer.csv"), pd.read_csv(trial)

    answers, submission = tables()
    if callable(getattr(metric, "validate_submission", None)):
        verdict = metric.validate_submission(submission, answers)
        if verdict is False or (isinstance(verdict, tuple) and verdict[:1] == (False,)):
            raise ValueError(f"validate_submission refuses it: {verdict}")
    return float(metric.evaluate(*tables()))


def score_by_script(trial: str) -> tuple[float, Any]:
    """The score that evaluator.py prints, as JSON, and whether lower is better."""
    sys.argv = ["evaluator.py", "--submission_path", os.path.abspath(trial)]
    said = io.StringIO()
    with contextlib.chdir(PACKAGE), contextlib.redirect_stdout(said):
        try:
            runpy.run_path("evaluator.py", run_name="__main__")
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise ValueError(f"evaluator.py ends with {ended.code}") from ended
    try:
        verdict = json.loads(said.getvalue())
    except json.JSONDecodeError:
        verdict = json.loads(said.getvalue().strip().splitlines()[-1])
    return float(verdict["score"]), verdict.get("is_lower_better")


def main() -> None:
    scores: dict[str, float] = {}
    refused: dict[str, str] = {}
    is_script = os.path.exists(f"{PACKAGE}/evaluator.py")
    metric = None if is_script else load_metric()
    higher = getattr(metric, "higher_is_better", None)
    for file in sorted(os.listdir(TRIALS)):
        name, path = file.removesuffix(".csv"), f"{TRIALS}/{file}"
        try:
            if is_script:
                scores[name], lower = score_by_script(path)
                higher = None if lower is None else str(lower).lower() not in ("true", "1", "yes")
            else:
                scores[name] = score_by_class(metric, path)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {error}"
    with open("submission.csv", "w", encoding="utf-8") as out:
        json.dump({"scores": scores, "refused": refused, "higher_is_better": higher}, out, default=str)


if __name__ == "__main__":
    main()
