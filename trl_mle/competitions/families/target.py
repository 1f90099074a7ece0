"""The target of a generated task: labels, answers and best predictions, and which rows are in test.csv."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.families.signals import draw_signal
from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.table_columns import Columns
from trl_mle.competitions.families.words import DOMAINS
from trl_mle.competitions.metrics import METRICS, Takes


LEAST_ROWS = 5  # of each class, in train.csv as well as in test.csv
NOISE = (0.3, 0.5, 0.8)  # standard deviations beside a signal of 1
ROUNDED = ("mean_columnwise_rmsle", "pearson_correlation")  # guesses in the sample submission


class Target(NamedTuple):
    labels: pd.Series  # as train.csv has them
    answers: pd.DataFrame  # as submissions have them
    ceiling: pd.DataFrame  # the best predictions
    classes: np.ndarray | None  # unless they are numbers


def draw_target(structure: Structure, columns: Columns, random: RandomState) -> Target:
    signal = partial(draw_signal, structure, columns, random)
    form, domain = structure.form, DOMAINS[structure.domain]
    column = getattr(domain, form)[0]
    if form in ("value", "amount"):
        values, best = _numbers(structure, signal(), random)
        answers = pd.DataFrame({column: values})
        return Target(answers[column], answers, pd.DataFrame({column: best}), None)
    labels = {"yes_or_no": np.arange(2), "grade": np.arange(1, 6)}.get(form, np.array(domain.kind[2], dtype=object))
    shares = random.uniform(0.7, 1.3, len(labels))
    if "imbalance" in structure.traps:
        shares[random.randint(len(labels)) if form == "kind" else 0] *= 10 if form == "yes_or_no" else 6
    shares /= shares.sum()
    classes, chances = (_grades if form == "grade" else _kinds)(signal, shares, random)
    classes = enough(classes, chances)
    answers = pd.DataFrame({column: labels[classes]})
    if METRICS[structure.metric].takes is Takes.PROBABILITIES:
        one_hot = pd.DataFrame(np.eye(len(labels), dtype=int)[classes], columns=list(labels))
        return Target(answers[column], one_hot, pd.DataFrame(chances, columns=list(labels)), classes)
    if form == "yes_or_no":
        best = chances[:, 1]
    else:
        best = labels[best_by_kappa(chances) if form == "grade" else chances.argmax(axis=1)]
    return Target(answers[column], answers, pd.DataFrame({column: best}), classes)


def _numbers(structure: Structure, signal: np.ndarray, random: RandomState) -> tuple[np.ndarray, np.ndarray]:
    noisy = signal + random.choice(NOISE) * random.normal(size=len(signal))
    if structure.form == "value":
        centre = random.uniform(-1, 2)
        return (centre + noisy).round(3), centre + signal
    width, middle = (0.9 if "tail" in structure.traps else 0.4), random.uniform(4, 5)
    # The best is by the mean of the logarithm. The mean itself is that times a factor, which no correlation minds
    return np.expm1(middle + width * noisy).clip(0.01).round(2), np.expm1(middle + width * signal).clip(0)


def _grades(draw: Callable[[], np.ndarray], shares: np.ndarray, random: RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Classes that follow one signal in their order, and the chances of all."""
    from scipy.special import ndtr  # here, because it takes time that most commands need not wait

    signal, noise = draw(), random.choice(NOISE)
    felt = signal + noise * random.normal(size=len(signal))
    ends = np.quantile(felt, shares.cumsum()[:-1])
    below = ndtr((ends - signal[:, None]) / noise)
    return (felt[:, None] > ends).sum(axis=1), np.diff(below, axis=1, prepend=0, append=1)


def _kinds(draw: Callable[[], np.ndarray], shares: np.ndarray, random: RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Classes with a signal each, but for the first of two, and the chances of all."""
    scale = random.choice([1.8, 2.6, 3.8])
    signals = [scale * draw() for _ in shares[len(shares) == 2 :]]
    logits = np.column_stack([np.zeros_like(signals[0])] * (len(shares) == 2) + signals)
    chances = _calibrated(logits, shares)
    return (chances.cumsum(axis=1)[:, :-1] < random.random_sample((len(logits), 1))).sum(axis=1), chances


def _calibrated(logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, which are made to have these shares on average."""
    offsets = np.log(shares)
    for _ in range(40):
        odds = np.exp(logits + offsets - (logits + offsets).max(axis=1, keepdims=True))
        chances = odds / odds.sum(axis=1, keepdims=True)
        offsets = offsets + np.log(shares / chances.mean(axis=0))
    return chances


def enough(classes: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The classes, where each has rows enough for both parts: if not, those that are likeliest to be of it are."""
    classes = classes.copy()
    for label in range(chances.shape[1]):
        counts = np.bincount(classes, minlength=chances.shape[1])
        free = np.flatnonzero(counts[classes] > 4 * LEAST_ROWS)
        lacking = max(0, 2 * LEAST_ROWS - counts[label])
        classes[free[chances[free, label].argsort(kind="stable")[::-1][:lacking]]] = label
    return classes


def best_by_kappa(chances: np.ndarray) -> np.ndarray:
    """The classes b with the largest quadratic weighted kappa, 1 - E[(a - b)²] / E[(a - b')²], for labels a with these
    chances, shape (rows, classes), by Dinkelbach's method."""
    squares = (np.arange(chances.shape[1])[:, None] - np.arange(chances.shape[1])) ** 2.0
    own = (chances[:, :, None] * squares).sum(axis=1)
    other = (chances.mean(axis=0)[:, None] * squares).sum(axis=0)
    ratio = 0.0
    for _ in range(20):
        best = (own - ratio * other).argmin(axis=1)
        ratio = own[np.arange(len(best)), best].mean() / max(other[best].mean(), 1e-9)
    return best


def split(lean: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Which rows are in test.csv: the third with the largest values, but both parts have some rows of each class."""
    in_test = lean.argsort(kind="stable").argsort() >= len(lean) * 2 // 3
    for label in [] if classes is None else np.unique(classes):
        rows = np.flatnonzero(classes == label)
        for part in (True, False):
            there = in_test[rows] == part
            in_test[rows[~there][: max(0, LEAST_ROWS - there.sum())]] = part
    return in_test


def guesses(answers: pd.DataFrame, metric: str, rows: int) -> pd.DataFrame:
    """What a constant can do at best, by the answers of the training rows."""
    best: dict[Any, Any] = {name: METRICS[metric].constant_guess(labels) for name, labels in answers.items()}
    if metric in ROUNDED:
        best = {name: np.round(guess, 3) for name, guess in best.items()}
    return pd.DataFrame({name: np.resize(guess, rows) for name, guess in best.items()})
