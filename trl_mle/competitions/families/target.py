"""The target of a generated task: labels, answers and best predictions, and which rows are in test.csv."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.families.signals import Features, draw_signal
from trl_mle.competitions.families.structure import Structure
from trl_mle.competitions.families.words import DOMAINS
from trl_mle.competitions.metrics import METRICS, Takes


LEAST_ROWS = 5  # of each class, in train.csv as well as in test.csv
ROUNDED = ("mean_columnwise_rmsle", "pearson_correlation")  # guesses in the sample submission


class Target(NamedTuple):
    """Labels as train.csv has them, answers and best predictions as submissions have them, and classes, if there are any."""

    labels: pd.Series
    answers: pd.DataFrame
    ceiling: pd.DataFrame
    classes: np.ndarray | None


def draw_target(
    structure: Structure, features: Features, group: np.ndarray | None, random: np.random.RandomState
) -> Target:
    domain, form = DOMAINS[structure.domain], structure.form
    column = getattr(domain, form)[0]
    if form in ("value", "amount"):
        return _measured_target(structure, column, draw_signal(structure, features, group, random), random)
    labels = domain.kind[2] if form == "kind" else tuple(range(5 if form == "grade" else 2))
    shares = random.uniform(0.7, 1.3, len(labels))
    if "imbalance" in structure.traps:
        shares[random.randint(len(labels)) if form == "kind" else 0] *= 10 if len(labels) == 2 else 6
    shares /= shares.sum()
    rows = len(features.days)
    if form == "grade":
        from scipy.special import ndtr  # here, because it takes time that most commands need not wait

        signal, noise = draw_signal(structure, features, group, random), random.choice([0.3, 0.5, 0.8])
        felt = signal + noise * random.normal(size=rows)
        ends = np.quantile(felt, shares.cumsum()[:-1])
        classes = (felt[:, None] > ends).sum(axis=1)
        below = ndtr((ends - signal[:, None]) / noise)
        chances = np.diff(below, axis=1, prepend=0, append=1)
    else:
        logits = np.zeros((rows, len(labels)))
        scale = random.choice([1.8, 2.6, 3.8])
        for label in range(1 if form == "yes_or_no" else 0, len(labels)):
            logits[:, label] = scale * draw_signal(structure, features, group, random)
        chances = _calibrated(logits, shares)
        classes = (chances.cumsum(axis=1)[:, :-1] < random.random_sample((rows, 1))).sum(axis=1)
    classes = enough(classes, chances)
    if form == "yes_or_no":
        answers = pd.DataFrame({column: classes})
        return Target(answers[column], answers, pd.DataFrame({column: chances[:, 1]}), classes)
    if form == "grade":
        answers = pd.DataFrame({column: classes + 1})
        return Target(answers[column], answers, pd.DataFrame({column: best_by_kappa(chances) + 1}), classes)
    names = np.array(labels, dtype=object)
    recorded = pd.Series(names[classes], name=column)
    if METRICS[structure.metric].takes is Takes.LABELS:
        best = pd.DataFrame({column: names[chances.argmax(axis=1)]})
        return Target(recorded, recorded.to_frame(), best, classes)
    one_hot = pd.DataFrame(np.eye(len(labels), dtype=int)[classes], columns=list(labels))
    return Target(recorded, one_hot, pd.DataFrame(chances, columns=list(labels)), classes)


def _measured_target(structure: Structure, column: str, signal: np.ndarray, random: np.random.RandomState) -> Target:
    noise = random.choice([0.3, 0.5, 0.8])
    noisy = signal + noise * random.normal(size=len(signal))
    if structure.form == "value":
        centre = random.uniform(-1, 2)
        answers, best = (centre + noisy).round(3), centre + signal
    else:
        width, middle = (0.9 if "tail" in structure.traps else 0.4), random.uniform(4, 5)
        answers = np.expm1(middle + width * noisy).clip(0.01).round(2)
        # By the mean of the logarithm. The mean itself is that times a factor, which no correlation minds
        best = np.expm1(middle + width * signal).clip(0)
    table = pd.DataFrame({column: answers})
    return Target(table[column], table, pd.DataFrame({column: best}), None)


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
    """
    The classes with the largest quadratic weighted kappa, 1 - E[(a - b)²] / E[(a - b')²], to be expected of labels that have
    these chances, shape (rows, classes): of each row the class b that minimises its part of E[(a - b)²] - r E[(a - b')²],
    where r is the quotient itself (Dinkelbach's method).
    """
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
    for label in range(0 if classes is None else int(classes.max()) + 1):
        rows = np.flatnonzero(classes == label)
        for part in (True, False):
            there = in_test[rows] == part
            in_test[rows[~there][: max(0, LEAST_ROWS - there.sum())]] = part
    return in_test


def guesses(answers: pd.DataFrame, metric: str, rows: int) -> pd.DataFrame:
    """What a constant can do at best, by the answers of the training rows."""
    columns = {}
    for name, labels in answers.items():
        guess = METRICS[metric].constant_guess(labels)
        columns[name] = np.resize(np.round(guess, 3) if metric in ROUNDED else guess, rows)
    return pd.DataFrame(columns)
