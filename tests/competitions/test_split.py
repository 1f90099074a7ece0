"""Rows held out for reports: how they are chosen, and how submissions are scored on them and on the others."""

import hashlib
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.packages import as_csv

from trl_mle.competitions import CompetitionError, Score, load_competition
from trl_mle.competitions.competition import Competition
from trl_mle.competitions.metrics import Metric
from trl_mle.competitions.mirrors import MIRRORS
from trl_mle.competitions.split import held_out_rows, whole_groups


SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.7])
LABELS = st.lists(st.sampled_from(["a", "b", "c", "d e"]), min_size=2, max_size=60)


def answers(labels, ids=None):
    return pd.DataFrame({"label": labels}, index=[f"id{i}" for i in range(len(labels))] if ids is None else ids)


@given(LABELS, SHARES, st.randoms(use_true_random=False))
def test_both_parts_have_each_label_in_its_share_whatever_the_order(labels, share, random):
    table = answers(labels)
    held_out = held_out_rows(table, share)
    order = random.sample(range(len(labels)), len(labels))
    assert (held_out_rows(table.iloc[order], share) == held_out[order]).all()
    groups = pd.Series(held_out).groupby(labels)
    for count, size in zip(groups.sum(), groups.size(), strict=True):
        assert abs(count - share * size) <= 1
        assert size == 1 or 0 < count < size
    if share == 0.5:
        assert abs(held_out.sum() - len(labels) / 2) <= 0.5


@given(st.integers(20, 300), SHARES)
def test_measurements_are_shared_out_by_their_size(rows, share):
    """Each tenth of the column is split."""
    random = np.random.RandomState(rows)
    table = pd.DataFrame(random.normal(size=rows) ** 3, index=random.permutation(rows))
    held_out = held_out_rows(table, share)
    assert held_out.sum() == int(rows * share)
    in_order = held_out[table[0].argsort()]
    for part in range(10):  # a tenth each
        rows_of_part = in_order[-(-part * rows // 10) : -(-(part + 1) * rows // 10)]
        assert abs(rows_of_part.sum() - share * len(rows_of_part)) <= 1


def test_the_split_is_the_same_everywhere():
    """The rows of a label are ordered by the SHA-256 of their ids, and the first ones are held out."""
    table = answers(["a", "b", "a", "b", "a", "a"], ids=[10, 11, 12, 13, 14, 15])
    hashes = [hashlib.sha256(str(i).encode()).hexdigest() for i in table.index]
    rows = {label: sorted(np.flatnonzero(table["label"] == label), key=hashes.__getitem__) for label in "ab"}
    assert np.flatnonzero(held_out_rows(table, 0.5)).tolist() == sorted([*rows["a"][:2], *rows["b"][:1]])


@pytest.mark.parametrize("name", "ab")
@pytest.mark.parametrize(
    ("sizes", "share", "hidden"), [([190, 10], 0.25, 10), ([60, 40], 0.25, 40), ([40, 20, 20, 20], 0.3, 20)]
)
def test_groups_are_hidden_as_far_as_they_fit(name, sizes, share, hidden):
    """Whichever comes first in the order of the hash."""
    groups = pd.Series([f"{name}{i}" for i, size in enumerate(sizes) for _ in range(size)])
    mask = whole_groups(groups, share)
    assert mask.sum() == hidden
    assert set(groups[mask]) & set(groups[~mask]) == set()
    shuffled = groups.sample(frac=1, random_state=0)
    assert set(shuffled[whole_groups(shuffled, share)]) == set(groups[mask])


def test_one_hot_answers_are_labels():
    rows = np.repeat(np.eye(30), 2, axis=0)  # more labels than a numeric column may have
    assert held_out_rows(pd.DataFrame(rows), 0.5).reshape(30, 2).sum(axis=1).tolist() == [1] * 30


def noisy(comp):
    """A submission in which about 30% of the rows have the labels of other rows."""
    table = pd.read_csv(comp.answers)
    random, targets = np.random.RandomState(0), list(comp.target_columns)
    wrong = random.rand(len(table)) < 0.3
    shuffled = table[targets].to_numpy()[random.permutation(len(table))]
    table.loc[wrong, targets] = shuffled[wrong]
    return table


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "diabetes", "wine"])
def test_each_part_is_scored_by_itself(name):
    """A part is scored like a competition with only these rows."""
    comp, split = load_competition(name), load_competition(name, holdout=0.5)
    table = noisy(comp)
    score = split.grade(as_csv(table.sample(frac=1, random_state=1)))
    assert comp == load_competition(name, holdout=0.0)
    truth = pd.read_csv(comp.answers)
    targets = list(comp.target_columns)
    held_out = held_out_rows(truth.set_index("id")[targets].astype(float), 0.5)
    parts = [
        round(float(comp.scoring.score(truth.loc[rows, targets], table.loc[rows, targets])), 5)
        for rows in (~held_out, held_out, held_out | True)
    ]
    assert score == Score(parts[0], valid=True, held_out=parts[1], full=parts[2])
    assert comp.grade(as_csv(table)) == Score(parts[2], valid=True, full=parts[2])


def test_the_score_of_training_knows_no_held_out_row():
    comp = pickle.loads(pickle.dumps(load_competition("wine", holdout=0.5)))
    table = noisy(comp)
    other = table.copy()
    held_out, targets = comp._held_out, list(comp.target_columns)
    other.loc[held_out, targets] = pd.read_csv(comp.answers).loc[held_out, targets]
    before, after = comp.grade(as_csv(table)), comp.grade(as_csv(other))
    assert before.value == after.value
    assert before.held_out != after.held_out == comp.scoring.best
    assert before.full != after.full


@pytest.mark.parametrize("name", MIRRORS)
def test_every_mirror_can_be_held_out(name):
    comp = load_competition(f"mirror:{name}", holdout=0.5)
    score = comp.grade(comp.answers)
    assert (score.value, score.held_out, score.full) == (comp.scoring.best,) * 3
    assert abs(comp._held_out.mean() - 0.5) < 0.02


def test_validity_is_judged_on_all_rows():
    comp = load_competition("breast-cancer", holdout=0.5)
    for row in (comp._held_out.argmax(), comp._held_out.argmin()):
        table = noisy(comp).astype({"malignant": float})
        table.loc[row, "malignant"] = 1.5
        assert comp.grade(as_csv(table)) == load_competition("breast-cancer").grade(as_csv(table))


def folder(tmp_path, truth, metric, **more):
    """A competition with these answers."""
    path = tmp_path / "answers.csv"
    path.write_bytes(as_csv(truth))
    columns = tuple(name for name in truth.columns if name != "id")
    return Competition("x", metric, tmp_path, path, path, columns, **more)


def test_predictions_that_cannot_be_scored_on_one_part(tmp_path):
    """The rows that training sees decide alone: without `undefined`, a failure on them makes a submission invalid."""

    def spread(y_true, y_pred):
        if y_pred["y"].nunique() == 1:
            raise RuntimeError("no spread")
        y_pred["y"] *= 1  # it may change its tables
        return y_pred["y"].std()

    truth = pd.DataFrame({"id": range(40), "y": np.linspace(0, 1, 40)})
    metrics = {"spread": Metric(spread, True), "spread or -1": Metric(spread, True, undefined=-1.0)}
    for name, undefined in {"spread": None, "spread or -1": -1.0, "pearson_correlation": 0.0}.items():
        comp = folder(tmp_path, truth, name, custom_metric=metrics.get(name), holdout=0.5)
        score = comp.grade(as_csv(truth.assign(y=truth["y"].where(comp._held_out, 0.5))))
        assert (score.valid, score.value) == (undefined is not None, undefined)
        score = comp.grade(as_csv(truth.assign(y=truth["y"].where(~comp._held_out, 0.5))))
        assert score.held_out == (score.full if undefined is None else undefined)
        assert score.value not in (score.full, None)
    assert not comp.grade(as_csv(truth.assign(y=0.5))).valid


def test_rows_that_are_matched_by_their_place(tmp_path):
    """Repeated ids, and files whose order counts."""
    truth = pd.DataFrame({"id": ["a", "a", "b", "b"] * 5, "y": np.arange(20) % 2})
    for more in ({}, {"in_file_order": True}):
        comp = folder(tmp_path, truth, "accuracy", holdout=0.5, **more)
        table = truth.copy()
        table.loc[comp._held_out, "y"] = 1 - table.loc[comp._held_out, "y"]
        assert comp.grade(as_csv(table)) == Score(1.0, True, held_out=0.0, full=0.5)


def test_answers_of_which_a_part_cannot_be_graded(tmp_path):
    truth = pd.DataFrame({"id": range(9), "y": [1] + [0] * 8})
    comp = folder(tmp_path, truth, "roc_auc", holdout=0.5)
    for submission in comp.answers, b"":  # whatever it is
        with pytest.raises(CompetitionError, match=r"^the .* rows of 'x', .* with holdout 0.5, cannot be graded: "):
            comp.grade(submission)
    assert replace(comp, holdout=0.0).grade(comp.answers).value == 1


@pytest.mark.parametrize("holdout", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(holdout):
    with pytest.raises(CompetitionError, match=r"^holdout must be at least 0 and below 1"):
        load_competition("wine", holdout=holdout)
