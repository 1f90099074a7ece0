"""Small real competitions from scikit-learn's bundled data, in a folder that the sandbox hides from programs."""

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trl_mle.competitions.catalog import Layout, competition_from_folder
from trl_mle.competitions.competition import Competition
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file
from trl_mle.data_files import read_data


TEST_SHARE = 0.3


def _tables(competition_id: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Features, labels as in train.csv, answers as in a submission."""
    datasets = import_module("sklearn.datasets")  # here, because it takes a second
    if competition_id == "digits":
        images, digits = datasets.load_digits(return_X_y=True)
        features = pd.DataFrame(images.astype(int), columns=[f"pixel_{i}" for i in range(images.shape[1])])
        one_hot = pd.DataFrame(np.eye(10, dtype=int)[digits], columns=[f"digit_{i}" for i in range(10)])
        return features, pd.DataFrame({"label": digits}), one_hot
    options = {"scaled": False} if competition_id == "diabetes" else {}
    bunch = getattr(datasets, f"load_{competition_id.replace('-', '_')}")(**options)
    target = bunch.target
    if competition_id == "breast-cancer":
        target = 1 - target  # scikit-learn codes malignant as 0
    elif competition_id == "diabetes":
        target = target / 100  # so that the score, and the reward, is of order 1
    names = [name.replace(" ", "_").replace("/", "_") for name in bunch.feature_names]
    labels = pd.DataFrame({LOCAL_COMPETITIONS[competition_id]["targets"][0]: target})
    return pd.DataFrame(bunch.data, columns=names), labels, labels


LOCAL_COMPETITIONS: dict[str, dict[str, Any]] = read_data(Path(__file__).with_name("local.yaml"))


def load_local(competition_id: str) -> Competition:
    """Loads a local competition, a key of `LOCAL_COMPETITIONS`; its files are written on first use."""
    local = LOCAL_COMPETITIONS[competition_id]
    prepared = cached_folder(competition_id, competition_id, partial(_write, competition_id))
    layout = Layout(local["metric"], "id", local["targets"], exact_columns=local.get("exact_columns", False))
    return competition_from_folder(competition_id, layout, prepared)


def _write(competition_id: str, prepared: Path) -> None:
    local = LOCAL_COMPETITIONS[competition_id]
    features, labels, answers = _tables(competition_id)
    # scikit-learn's rows are partly sorted by class. numpy promises that this stream never changes
    random = np.random.RandomState(0)
    order = random.permutation(len(features))
    numbers = random.choice(np.arange(10_000, 100_000), len(features), replace=False)
    ids = pd.DataFrame({"id": [f"id{number}" for number in numbers]})
    test, train = np.split(order, [round(TEST_SHARE * len(features))])

    sample = pd.concat([ids, answers], axis=1).iloc[test].assign(**dict.fromkeys(local["targets"], local["baseline"]))
    public = {
        "train.csv": pd.concat([ids, features, labels], axis=1).iloc[train],
        "test.csv": pd.concat([ids, features], axis=1).iloc[test],
        "sample_submission.csv": sample,
    }
    for name, table in public.items():
        write_file(prepared / "public" / name, csv_text(table))
    text = description(
        title=local["title"],
        overview=local["overview"],
        evaluation=local["evaluation"],
        submission="One row for each `id` of `test.csv`, in any order, below this header:",
        sample=sample,
        data=f"- `train.csv`: {len(train)} rows with their labels.\n"
        f"- `test.csv`: {len(sample)} rows to predict.\n"
        f"- `sample_submission.csv`: a submission in the right format.\n\n{local['data']}",
    )
    write_file(prepared / "public" / "description.md", text)
    write_file(prepared / "private" / "test.csv", csv_text(pd.concat([ids, answers], axis=1).iloc[test]))
