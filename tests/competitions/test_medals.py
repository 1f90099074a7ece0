from pathlib import Path

import numpy as np
import pytest

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.medals import human_rank, medal, medal_thresholds, thresholds_from_scores


SPOOKY = "spooky-author-identification"


def competition_of(name, metric="roc_auc"):
    return Competition(name, metric, Path(), Path(), Path(), ())


def thresholds_of(name, metric="roc_auc"):
    return medal_thresholds(competition_of(name, metric))


@pytest.mark.parametrize(
    ("teams", "gold", "silver", "bronze"),
    [(99, 9, 19, 39), (249, 10, 49, 99), (250, 10, 50, 100), (1000, 12, 50, 100)],
)
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_kaggles_rule(teams, gold, silver, bronze, higher_is_better):
    ranks = np.random.RandomState(0).permutation(teams) + 1.0
    sign = -1 if higher_is_better else 1  # rank 1 is best
    thresholds = thresholds_from_scores(sign * ranks, higher_is_better)
    assert thresholds == tuple(sign * rank for rank in (gold, silver, bronze, (teams + 1) / 2))
    assert medal(sign * gold, thresholds, higher_is_better) == "gold"
    assert medal(sign * silver, thresholds, higher_is_better) == "silver"
    assert medal(sign * bronze, thresholds, higher_is_better) == "bronze"
    assert medal(sign * (bronze + 0.5), thresholds, higher_is_better) is None


@pytest.fixture
def leaderboard(tmp_path, monkeypatch):
    """Path of the leaderboard in an `mlebench` that must not be imported."""
    package = tmp_path / "mlebench"
    path = package / "competitions" / "random-acts-of-pizza" / "leaderboard.csv"
    path.parent.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    return path


def test_leaderboards_of_an_installed_mlebench(leaderboard):
    rows = "".join(f"t{i},{i / 50},2014\n" for i in [*range(30, 50), *range(30)])
    leaderboard.write_text("teamName,score,date\n" + rows + "late,,2014\n")
    assert thresholds_of("random-acts-of-pizza") == (45 / 50, 40 / 50, 30 / 50, 24.5 / 50)
    assert thresholds_of("random-acts-of-pizza", "rmse").gold == 4 / 50  # lower is better
    assert thresholds_of("leaf-classification") is None


def test_the_share_of_teams_with_a_worse_score(leaderboard):
    leaderboard.write_text("teamName,score\na,0.9\nb,0.8\nc,0.8\nd,0.2\nlate,\n")
    pizza, lower = competition_of("random-acts-of-pizza"), competition_of("random-acts-of-pizza", "rmse")
    assert [human_rank(pizza, score) for score in (1.0, 0.9, 0.8, 0.5, 0.1)] == [1.0, 0.75, 0.25, 0.25, 0.0]
    assert [human_rank(lower, score) for score in (0.1, 0.2, 0.8, 1.0)] == [1.0, 0.75, 0.25, 0.0]
    assert human_rank(competition_of("leaf-classification"), 0.5) is None


def test_a_leaderboard_without_scores_says_what_to_do(leaderboard):
    leaderboard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(CompetitionError, match="git lfs pull"):
        thresholds_of("random-acts-of-pizza")


def test_bundled_thresholds(monkeypatch):
    monkeypatch.setattr("trl_mle.competitions.bench.find_spec", lambda name: None)
    assert thresholds_of(SPOOKY) == (0.16506, 0.26996, 0.29381, 0.418785)
    assert [thresholds_of(name) for name in ("leaf-classification", "digits", f"mirror:{SPOOKY}")] == [None] * 3
