"""A foreign metric is recognized by its scores alone."""

import io

import numpy as np
import pandas as pd
import pytest

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import METRICS, Takes
from trl_mle.competitions.recognition import form, recognized, trial_submissions


ROWS = 60
SAME_FOR_ONE_COLUMN = {"mean_columnwise_roc_auc": "roc_auc", "mean_columnwise_rmsle": "rmsle"}


def answers_for(metric, columns=1):
    rng = np.random.RandomState(1)
    takes = METRICS[metric].takes
    if takes is Takes.PROBABILITIES:
        values = np.eye(8, dtype=int)[rng.randint(8, size=ROWS)]
    elif takes in (Takes.SCORES, Takes.ZEROS_AND_ONES):
        values = (rng.uniform(size=(ROWS, columns)) < 0.3).astype(int)
    elif takes is Takes.LABELS:
        values = rng.choice(5, size=(ROWS, 1), p=[0.4, 0.3, 0.15, 0.1, 0.05])
    elif takes is Takes.TEXTS:
        values = np.array([[f"some words about {i} things"] for i in range(ROWS)], dtype=object)
    else:
        values = np.exp(rng.normal(size=(ROWS, columns))) * 50
    table = pd.DataFrame(values, columns=[f"t{i}" for i in range(values.shape[1])])
    table.insert(0, "id", rng.permutation(ROWS))
    return table


def competition_of(table, folder):
    table.to_csv(folder / "answers.csv", index=False)
    return Competition("x", "accuracy", folder, folder / "none.csv", folder / "answers.csv", tuple(table.columns[1:]))


def scores_of(score, comp, trials):
    """Scores of the trials, by a function that knows nothing of ours but what it is given."""
    found = {}
    for name, content in trials.items():
        truth, table = (pd.read_csv(source, index_col="id") for source in (comp.answers, io.BytesIO(content)))
        try:
            found[name] = float(score(truth, table.reindex(truth.index)[truth.columns]))
        except (ValueError, TypeError, AttributeError):
            continue
    return found


@pytest.mark.parametrize(
    ("metric", "columns", "sign"),
    [(metric, 1, 1) for metric in METRICS] + [(metric, 3, 1) for metric in SAME_FOR_ONE_COLUMN] + [("rmse", 1, -1)],
)
def test_each_of_ours(metric, columns, sign, tmp_path):
    table = answers_for(metric, columns)
    comp = competition_of(table, tmp_path)
    trials = trial_submissions(table, "id")
    scores = scores_of(lambda truth, table: sign * round(METRICS[metric].score(truth, table), 6), comp, trials)
    found = recognized(comp, trials, scores)
    assert found is not None
    assert found.metric == (metric if columns > 1 else SAME_FOR_ONE_COLUMN.get(metric, metric))
    assert found.sign == sign
    assert found.difference <= 1e-6
    assert found.trials >= 5


def test_what_is_none_of_ours(tmp_path):
    table = answers_for("rmse")
    comp, trials = competition_of(table, tmp_path), trial_submissions(table, "id")
    for score in (
        lambda truth, table: float(((truth - table).abs() ** 3).to_numpy().mean()),
        lambda truth, table: 0.5,
        lambda truth, table: METRICS["rmse"].score(truth, table) + 1,
    ):
        assert recognized(comp, trials, scores_of(score, comp, trials)) is None
    assert recognized(comp, trials, {}) is None


def test_another_scikit_learn_metric_of_the_same_kind(tmp_path):
    """An AUC of hard labels is the balanced accuracy: what one refuses tells them apart."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    table = answers_for("roc_auc")
    comp, trials = competition_of(table, tmp_path), trial_submissions(table, "id")
    assert recognized(comp, trials, scores_of(roc_auc_score, comp, trials)).metric == "roc_auc"
    assert recognized(comp, trials, scores_of(balanced_accuracy_score, comp, trials)).metric == "balanced_accuracy"


def test_a_log_loss_that_clips_elsewhere(tmp_path):
    table = answers_for("binary_log_loss")
    comp, trials = competition_of(table, tmp_path), trial_submissions(table, "id")

    def log_loss(truth, table):
        clipped = table.clip(1e-15, 1 - 1e-15)
        return -(truth * np.log(clipped) + (1 - truth) * np.log(1 - clipped)).to_numpy().mean()

    assert recognized(comp, trials, scores_of(log_loss, comp, trials)).metric == "binary_log_loss"


def test_what_else_it_checks():
    scores = {f"trial-{i}": i / 12 for i in range(12)}
    probes = {f"{name}-{i}": i / 12 for name in ("extra", "id_last", "reversed") for i in (2, 8)}
    assert form(scores | probes) == {}
    for name, key in (("extra", "exact_columns"), ("id_last", "id_first")):
        assert form(scores | {probe: value for probe, value in probes.items() if name not in probe}) == {key: True}
    assert form(scores | probes | {"reversed-2": 0.9}) == {"in_file_order": True}


def test_trials_of_probabilities_are_probabilities():
    trials = trial_submissions(answers_for("log_loss"), "id")
    tables = [pd.read_csv(io.BytesIO(content)) for name, content in trials.items() if "trial" in name]
    assert len(tables) == 12
    for table in tables:
        values = table.drop(columns="id").to_numpy()
        assert values.min() > 0
        assert np.allclose(values.sum(axis=1), 1)
