"""Small task packages in the layouts of other projects."""

import numpy as np
import pandas as pd


def write_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else content.to_csv(index=False))
    return folder


def read_files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def as_csv(table):
    return table.to_csv(index=False).encode()


def tables(target):
    """A train table, the test rows without the target, and the answers."""
    rng = np.random.RandomState(0)
    ids = [f"r{i}" for i in rng.permutation(100)]
    rows = pd.DataFrame({"id": ids, "x": rng.normal(size=100).round(3), "y": rng.uniform(size=100).round(3)})
    rows["price"] = (10 + 3 * rows["x"] + rng.normal(size=100)).round(3)
    rows["kind"] = np.where(rows["x"] + rng.normal(size=100) > 0.5, "high", np.where(rows["y"] > 0.5, "middle", "low"))
    rows = rows[["id", "x", "y", target]]
    return rows[:60], rows[60:].drop(columns=target), rows[60:][["id", target]]


def write_package(folder, layout, **files):
    """Writes a package that `trl-mle import` takes, with these files instead of its own; `None` leaves one out."""
    target = "kind" if layout == "openmle" else "price"
    train, test, answers = tables(target)
    sample = answers.assign(**{target: "low" if target == "kind" else 9.5})
    data = {"openmle": "data", "mle-dojo": "data", "sandmle": "prepared", "flat": "."}[layout]
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
        scorer: "raise RuntimeError",  # no code of a package runs
    } | {name.format(public=public): content for name, content in files.items()}
    return write_files(folder, {name: content for name, content in written.items() if content is not None})
