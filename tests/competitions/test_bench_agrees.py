"""Our graders of the twelve give the scores of MLE-bench's own, where it is installed."""

from importlib import import_module

import numpy as np
import pytest
from support import prepared_folders
from support.prepared_folders import write_prepared_folder

from trl_mle.competitions import load_competition
from trl_mle.competitions.bench import BenchGrader, bench_folder
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


@pytest.mark.skipif(bench_folder("leaf-classification") is None, reason="mlebench is not installed")
@pytest.mark.parametrize("name", MLEBENCH_COMPETITIONS)
def test_our_graders_of_the_twelve_agree_with_it(name, tmp_path, monkeypatch):
    if name == "leaf-classification":  # its grader knows the species
        classes = import_module(f"mlebench.competitions.{name}.classes").CLASSES
        monkeypatch.setattr(prepared_folders, "SPECIES", tuple(classes))
    answers = write_prepared_folder(name, tmp_path)
    layout, ours = MLEBENCH_COMPETITIONS[name], load_competition(name, tmp_path)
    grader = BenchGrader(str(tmp_path))
    rng = np.random.RandomState(0)
    compared = 0
    for number in range(12):
        table = answers.copy()
        rows = rng.choice(len(table), 2 + number % 10, replace=False)
        targets = [column for column in table.columns if column != layout.id_column]
        table.loc[rows, targets] = table.loc[rng.permutation(rows), targets].to_numpy()
        if number % 3 == 2 and layout.metric not in ("accuracy", "quadratic_weighted_kappa", "word_level_jaccard"):
            noise = rng.uniform(0, 1, size=(len(table), len(targets)))
            mixed = 0.7 * table[targets].astype(float) + 0.3 * noise
            table[targets] = (
                mixed.div(mixed.sum(axis=1), axis=0) if layout.metric == "log_loss" else mixed.clip(0, None)
            )
        path = tmp_path / "submission.csv"
        table.to_csv(path, index=False)
        theirs = grader.ask(60.0, ask="grade", name=name, submission=str(path))
        score = ours.grade(path)
        assert score.value == pytest.approx(theirs.get("score"), abs=1e-5), (number, score, theirs)
        compared += score.valid
    assert compared >= 8
