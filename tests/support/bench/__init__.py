"""The stand-in for MLE-bench, and its prepared data."""

from pathlib import Path

import pandas as pd

from support.packages import tables, write_files


SITE = Path(__file__).parent  # for `sys.path`


def write_prepared(data_dir):
    """What `mlebench prepare` would leave."""
    train, test, answers = tables("kind")
    answers = answers.rename(columns={"kind": "kinds"})
    prepared = data_dir / "rank-the-kinds" / "prepared"
    description = (SITE / "mlebench/competitions/rank-the-kinds/description.md").read_text()
    write_files(
        prepared,
        {
            "public/description.md": description,
            "public/train.csv": train,
            "public/test.csv": test,
            "public/sample_submission.csv": answers.assign(kinds="low high"),
            "private/answers.csv": answers,
        },
    )
    values = pd.DataFrame({"id": range(30), "value": [i / 10 for i in range(30)]})
    write_files(
        data_dir / "hidden-sample" / "prepared",
        {
            "public/description.md": "# Hidden sample\n\n## Overview\n\nPredict the value.\n",
            "public/test.csv": values[["id"]],
            "private/test.jsonl": values.to_json(orient="records", lines=True),
            "private/sample_submission.csv": values.assign(value=0.0),
        },
    )
    return answers
