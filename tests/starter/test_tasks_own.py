"""The grammar's programs for tables of the user's own, really run and graded."""

import random

import numpy as np
import pandas as pd
import pytest
from support import labels
from support.sketched import quick_programs, score

from trl_mle.competitions import CompetitionError
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.own import new_competition
from trl_mle.starter.grammar import Sketcher, find_tasks


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def table(tmp_path):
    """80 rows with numbers, some of them missing, labels, prose, codes that say nothing, and targets of each kind."""
    rng = np.random.default_rng(0)
    number, kind = rng.normal(size=80), rng.choice(["inner city", "suburb", 'near "the" park'], 80)
    words = np.where(number > 0, "a bright flat with a garden", "a dark house near the station")
    rows = {
        "a number": np.where(rng.random(80) < 0.1, np.nan, number),
        "kind": kind,
        "prose": [f"{text}, number {i}" for i, text in enumerate(words)],
        "code": [f"x{i}" for i in range(80)],
        'the "price"': 10 + 3 * number,
        "other": number**2,
        "is_dear": (number > 0).astype(int),
    }
    path = tmp_path / "table.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def program_of(folder, number=0):
    """A program with one part of the features, by its number, and a tree that is no constant."""
    (task,) = find_tasks(str(folder))
    return quick_programs(str(folder), 1, (task, task.parts[number]), has="(max_depth=8)", seed=number)[0]


def check(table, targets, metric, folder):
    """A program with each part of the features is valid; returns the task and the programs."""
    competition = new_competition(table, targets, metric, folder / "own")
    (task,) = find_tasks(str(folder / "own"))
    programs = [program_of(folder / "own", number) for number in range(len(task.parts))]
    for number, program in enumerate(programs):
        assert score(program, competition, folder / str(number)) is not None, program
    return task, programs


@pytest.mark.parametrize(
    ("metric", "targets", "kind"),
    [
        ("rmse", ['the "price"'], "number"),
        ("mean_columnwise_rmsle", ['the "price"', "other"], "numbers"),
        ("roc_auc", ["is_dear"], "probability"),
        ("log_loss", ["kind"], "probabilities"),
        ("accuracy", ["kind"], "class"),
    ],
)
def test_every_program_without_slips_is_valid(table, tmp_path, metric, targets, kind):
    task, _ = check(table, targets, metric, tmp_path)
    assert task.kind == kind
    assert all('"code"' in base for base in task.base)  # it is dropped


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_one_entry(tmp_path, name):
    """From a table with labels that it takes to a program that scores better than the constant guess."""
    metric = METRICS[name]
    labels.table(name).to_csv(tmp_path / "table.csv", index=False)
    competition = new_competition(tmp_path / "table.csv", ["target"], name, tmp_path / "own")
    guess = competition.grade(competition.sample_submission).value
    program = program_of(tmp_path / "own")
    value = score(program, competition, tmp_path / "run")
    assert value is not None, program
    assert metric.gain(metric.best) >= metric.gain(value) > metric.gain(guess)


ODD = {
    "a keyword as target": ("class", "rmse", lambda rows: rows.rename(columns={"other": "class"})),
    "one feature": ("other", "rmse", lambda rows: rows[["a number", "other"]]),
    "a text among numbers": ("other", "rmse", lambda rows: rows.assign(code=["x", *map(str, range(79))])),
    "infinite numbers": ("other", "rmse", lambda rows: rows.assign(code=np.inf, kind=rows["other"] > 0.3)),
    "only prose": ("is_dear", "accuracy", lambda rows: rows[["prose", "is_dear"]]),
}


@pytest.mark.parametrize(("target", "metric", "change"), ODD.values(), ids=ODD)
def test_odd_tables(table, tmp_path, target, metric, change):
    change(pd.read_csv(table)).to_csv(table, index=False)
    _, programs = check(table, [target], metric, tmp_path)
    assert target != "is_dear" or "table" not in "".join(programs)  # from prose alone


@pytest.mark.parametrize("labels", [("+1", "-1"), ("TRUE", "FALSE")])
def test_probabilities_are_in_the_columns_of_their_labels(table, tmp_path, labels):
    feature = pd.read_csv(table)["other"]
    rows = pd.DataFrame({"feature": feature, "label": np.where(feature > feature.median(), *labels)})
    rows.to_csv(table, index=False)
    competition = new_competition(table, ["label"], "log_loss", tmp_path / "own")
    program = program_of(tmp_path / "own")
    assert score(program, competition, tmp_path / "run") < 0.2, program


def test_what_is_not_covered_says_so(table, tmp_path):
    with pytest.raises(CompetitionError, match="titanic"):
        Sketcher("titanic", random.Random(0))
    pd.read_csv(table)[["code", "other"]].to_csv(table, index=False)
    new_competition(table, ["other"], "rmse", tmp_path / "own")
    with pytest.raises(CompetitionError, match="own is no table"):
        find_tasks(str(tmp_path / "own"))
    (tmp_path / "own" / "public" / "train.csv").unlink()
    find_tasks.cache_clear()
    with pytest.raises(CompetitionError, match=r"no train\.csv"):
        find_tasks(str(tmp_path / "own"))


def test_a_folder_may_be_named_without_its_path(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_competition(table, ["other"], "rmse", tmp_path / "own")
    assert find_tasks("own") == find_tasks("./own")
