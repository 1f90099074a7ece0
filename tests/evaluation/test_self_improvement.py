from dataclasses import replace

import pytest

from trl_mle.competitions import Score, load_competition
from trl_mle.competitions.metrics import METRICS
from trl_mle.evaluation import validation_score
from trl_mle.rewards import Evaluation


FAILED = Evaluation(-10.0, 0.1, None, "error", output="ValueError", source="x = 1")


def valid(score: float, source: str = "x = 1", *reports: str) -> Evaluation:
    """A valid program, and the reports of the instrumenter's prints, such as `auc = 0.9`."""
    pairs = tuple(tuple(report.split(" = ")) for report in reports)
    return Evaluation(score, 1.0, Score(score, True), "ok", source=source, reports=pairs)


# The competition's metric decides: digits log loss, breast-cancer ROC AUC, wine accuracy, diabetes RMSE.
@pytest.mark.parametrize(
    ("competition", "source", "reports", "expected"),
    [
        ("breast-cancer", "auc = f()", ["auc = 0.9"], 0.9),
        ("breast-cancer", "auc = f()\nauc = f()", ["auc = 0.9", "auc = 0.8"], 0.8),  # the last one counts
        ("breast-cancer", "auc = f()\nacc = g()", ["auc = 0.9", "acc = 0.8"], 0.9),  # the one in the metric counts
        ("breast-cancer", "auc_train = f()", ["auc_train = 1.0"], None),
        ("breast-cancer", "score = roc_auc_score(y, p)", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = m.roc_auc_score(y, p)", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = cross_val_score(m, X, y, scoring='roc_auc').mean()", ["score = 0.9"], 0.9),
        ("breast-cancer", "score = model.score(X, y)", ["score = 0.9"], None),  # of an unknown metric
        ("breast-cancer", "train = f()", ["train.shape = (3, 4)"], None),
        ("breast-cancer", "auc = f()", ["auc = [0.9 0.8]"], None),
        ("breast-cancer", "auc = f()", ["auc = nan"], None),
        ("digits", "loss = log_loss(y, p)", ["loss = 0.3"], 0.3),
        ("digits", "loss = hinge_loss(y, p)", ["loss = 0.3"], None),
        ("digits", "s = cross_val_score(m, X, y, scoring='neg_log_loss').mean()", ["s = -0.3"], None),
        ("digits", "log_loss = f()", ["log_loss = -0.3"], None),
        ("wine", "acc = f()", ["acc = 0.9"], 0.9),
        ("wine", "acc = f() * 100", ["acc = 87.5"], None),  # in per cent
        ("wine", "acc = f()\nacc = g()", ["acc = 0.875", "acc = 87.5"], 0.875),
        ("wine", "acc = f()", ["acc = 1.0"], 1.0),
        ("wine", "s = accuracy_score(y, p)", ["s = 0.9"], 0.9),
        ("wine", "s = balanced_accuracy_score(y, p)", ["s = 0.9"], None),
        ("diabetes", "rmse = np.sqrt(mean_squared_error(y, p))", ["rmse = 0.6"], 0.6),
        ("diabetes", "s = mean_squared_error(y, p)", ["s = 0.36"], None),
        ("diabetes", "s = root_mean_squared_error(y, p)", ["s = 0.6"], 0.6),
    ],
)
def test_a_validation_score_counts_if_it_is_in_the_competitions_metric(competition, source, reports, expected):
    assert validation_score(valid(0.5, source, *reports), load_competition(competition)) == expected


def test_a_metric_of_ones_own_is_known_by_its_functions_name():
    comp = replace(
        load_competition("wine"), metric="my.package.f2", custom_metric=METRICS["accuracy"]._replace(names="f2")
    )
    assert validation_score(valid(0.5, "f2 = f()", "f2 = 0.7"), comp) == 0.7
    assert validation_score(valid(0.5, "f1 = f()", "f1 = 0.7"), comp) is None


def test_a_program_that_failed_has_no_validation_score():
    comp = load_competition("wine")
    assert validation_score(replace(FAILED, reports=(("acc", "0.9"),), source="acc = f()"), comp) is None
