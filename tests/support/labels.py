"""Answers and tables that fit what a metric takes."""

import numpy as np
import pandas as pd

from trl_mle.competitions.metrics import METRICS, Takes


NAMES = np.array(["ash", "birch", "cedar", "elm", "fir", "oak", "pine"])
PHRASES = np.array([f"the {name} tree" for name in NAMES])


def draw(takes: Takes, rng: np.random.RandomState, rows: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers and valid predictions, which are not constant."""
    rows = rows or rng.randint(8, 30)
    codes, other = np.arange(rows) % 7, rng.randint(0, 8, rows)
    rng.shuffle(codes)
    other[:2] = 0, 1
    match takes:
        case Takes.PROBABILITIES:
            return pd.DataFrame(np.eye(7)[codes]), pd.DataFrame(rng.dirichlet([0.3] * 7, rows))
        case Takes.SCORES:
            columns = codes % 2, rng.randint(0, 5, rows) / 4
        case Takes.ZEROS_AND_ONES:
            columns = codes % 2, other % 2
        case Takes.LABELS:
            columns = codes, other
        case Takes.TEXTS:
            columns = PHRASES[codes], PHRASES[other % 7]
        case Takes.NUMBERS:
            columns = 5 + rng.normal(size=rows), 5 + rng.normal(size=rows).round(1)
    truth, guess = (pd.DataFrame({"y": column}) for column in columns)
    return (truth, guess) if takes is Takes.TEXTS else (truth.astype(float), guess.astype(float))


def table(metric: str, rows: int = 140) -> pd.DataFrame:
    """Two columns, one of which says much about the third, `target`."""
    rng = np.random.RandomState(0)
    codes = np.arange(rows) % 7
    targets = {Takes.TEXTS: PHRASES[codes], Takes.NUMBERS: 2.5 + codes + rng.rand(rows)}
    targets |= dict.fromkeys((Takes.SCORES, Takes.ZEROS_AND_ONES), codes % 2)
    targets |= dict.fromkeys((Takes.PROBABILITIES, Takes.LABELS), NAMES[codes])
    target = codes if metric == "quadratic_weighted_kappa" else targets[METRICS[metric].takes]
    return pd.DataFrame({"width": codes + 0.6 * rng.rand(rows), "height": rng.rand(rows), "target": target})
