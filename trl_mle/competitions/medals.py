"""Kaggle's leaderboards: the medal that a score would have won, and the share of teams that it beats."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.bench import bench_folder
from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.metrics import gain


class MedalThresholds(NamedTuple):
    """The worst score that wins each medal, and the median of the leaderboard."""

    gold: float
    silver: float
    bronze: float
    median: float


# As MLE-bench (https://huggingface.co/papers/2410.07095) computes them from Kaggle's leaderboard.
KNOWN_THRESHOLDS = {"spooky-author-identification": MedalThresholds(0.16506, 0.26996, 0.29381, 0.418785)}


def medal_thresholds(competition: Competition) -> MedalThresholds | None:
    """The thresholds of an MLE-bench competition: an installed `mlebench`'s, else bundled ones, if any."""
    if (scores := leaderboard(competition)) is None:
        return KNOWN_THRESHOLDS.get(competition.id)
    return thresholds_from_scores(scores, competition.higher_is_better)


def human_rank(competition: Competition, score: float) -> float | None:
    """The share of Kaggle's teams with a worse score, as in MLE-Dojo (https://huggingface.co/papers/2505.07782)."""
    if (scores := leaderboard(competition)) is None:
        return None
    return float(np.mean(scores < score if competition.higher_is_better else scores > score))


def leaderboard(competition: Competition) -> np.ndarray | None:
    """Kaggle's final scores, from an installed `mlebench`. Raises [`CompetitionError`] if its file has none."""
    folder = bench_folder(competition.id)
    if folder is None or not (path := folder / "leaderboard.csv").is_file():
        return None
    table = pd.read_csv(path)
    if "score" not in table:
        raise CompetitionError(f"{path} has no column 'score'; if it is a Git LFS pointer: git lfs pull")
    return table["score"].dropna().to_numpy()


def thresholds_from_scores(scores: np.ndarray, higher_is_better: bool) -> MedalThresholds:
    """Kaggle's rule (https://www.kaggle.com/progression) for the final scores of the teams, in any order."""
    best_first = np.sort(scores)[::-1] if higher_is_better else np.sort(scores)
    teams = len(best_first)
    if teams < 250:
        ranks = (min(teams * 10 // 100, 10), teams * 20 // 100, teams * 40 // 100)
    elif teams < 1000:
        ranks = (10 + teams * 2 // 1000, 50, 100)
    else:
        ranks = (10 + teams * 2 // 1000, teams * 5 // 100, teams * 10 // 100)
    gold, silver, bronze = (float(best_first[max(rank, 1) - 1]) for rank in ranks)
    return MedalThresholds(gold, silver, bronze, float(np.median(best_first)))


def medal(score: float, thresholds: MedalThresholds, higher_is_better: bool) -> str | None:
    """`"gold"`, `"silver"`, `"bronze"` or none."""
    names = ("gold", "silver", "bronze")
    return next((name for name in names if gain(score - getattr(thresholds, name), higher_is_better) >= 0), None)
