"""Mirrors: synthetic data in a competition's format with a learnable signal, and helpers to draw it."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.data_files import read_data


VOCABULARY = read_data(Path(__file__).with_name("vocabulary.yaml"))


Ids = Callable[[int, int, RandomState], list]  # ids of so many rows of the train and of the test set


class Drawn(NamedTuple):
    """All rows of a mirror, train and test, as its generator has drawn them."""

    table: pd.DataFrame  # the columns of train.csv, without the id
    targets: pd.DataFrame  # the labels in the form of a submission, without the id
    ceiling: pd.DataFrame  # the best predictions: from full knowledge of the generator, but not of the labels' noise
    attachments: list[bytes] | None = None  # one more file for each row


class Mirror(NamedTuple):
    """How a mirror is drawn; mirrors.yaml has everything else."""

    draw: Callable[[int, RandomState], Drawn]  # draws that many rows
    ids: Ids | None = None  # without it the id is a column of `table`
    # Turns the usual files, by path below the prepared folder, into those of a competition with special formats
    adapt: Callable[[dict[str, pd.DataFrame]], Mapping[str, pd.DataFrame | bytes]] = dict


class Classes(NamedTuple):
    """Classes, what the features show of them, and both as submissions."""

    labels: np.ndarray
    shown: np.ndarray  # the label, but in a share of the rows a class drawn at random
    targets: pd.DataFrame  # 0 and 1
    ceiling: pd.DataFrame  # P(class | what is shown), by Bayes' rule


def draw_classes(names: list[str], shares: list[float], noise: float, rows: int, random: RandomState) -> Classes:
    """Classes with these shares, of which features show all but a share of noise."""
    count = len(names)
    labels = exact_shares(shares, rows, random)
    shown = np.where(random.random_sample(rows) < noise, random.randint(0, count, rows), labels)
    priors = np.bincount(labels, minlength=count) / rows
    joint = priors[:, None] * ((1 - noise) * np.eye(count) + noise / count)  # [class, shown]
    ceiling = (joint / joint.sum(axis=0))[:, shown].T
    targets = pd.DataFrame(np.eye(count, dtype=int)[labels], columns=names)
    return Classes(labels, shown, targets, pd.DataFrame(ceiling, columns=names))


def draw_yes_or_no(logits: np.ndarray, no: float, noise: float, random: RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0 and 1, of which that share is 0, and the probabilities of 1."""
    labels = cut(logits + noise * random.logistic(size=len(logits)), [no, 1 - no])
    return labels, 1 / (1 + np.exp(-(logits - np.quantile(logits, no)) / noise))


def exact_shares(shares: list[float], rows: int, random: RandomState) -> np.ndarray:
    """Class numbers in random order, with each class as often as its share says."""
    return random.permutation(_in_order(shares, rows))


def cut(values: np.ndarray, shares: list[float]) -> np.ndarray:
    """The rank of each value as a class number, with each class as often as its share says."""
    return _in_order(shares, len(values))[values.argsort(kind="stable").argsort()]


def _in_order(shares: list[float], rows: int) -> np.ndarray:
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * rows).astype(int)
    return np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0))


def random_ids(low: int, high: int, form: Callable[[int], Any] = int) -> Ids:
    """Ids that are formed of random numbers from [low, high), all different, in no order."""

    def ids(train: int, test: int, random: RandomState) -> list:
        numbers = dict[int, None]()  # a set that keeps its order
        while len(numbers) < train + test:
            numbers.update(dict.fromkeys(random.randint(low, high, train + test, dtype=np.int64).tolist()))
        return list(map(form, list(numbers)[: train + test]))

    return ids


def counted_ids(train_prefix: str = "", test_prefix: str = "", start: int = 0) -> Ids:
    """Ids that count up in each part."""

    def ids(train: int, test: int, random: RandomState) -> list:
        parts = ((train_prefix, train), (test_prefix, test))
        return [f"{prefix}{start + i}" if prefix else start + i for prefix, rows in parts for i in range(rows)]

    return ids


class Grammar:
    """Writes texts by a grammar of vocabulary.yaml: a symbol becomes one of its alternatives, which "|" separates;
    `{symbol}` stands for a symbol. Line ends and indentation do not count. Alternatives have `weights` in turn."""

    def __init__(self, name: str, random: Random, weights: Sequence[float] = (1,)):
        # Split by the symbols, an alternative has its words at even places and symbols at odd ones.
        self._rules = {
            symbol: [re.split(r"\{(\w+)\}", text) for text in re.sub(r"\n\s*", "", alternatives).split("|")]
            for symbol, alternatives in VOCABULARY[name].items()
        }
        self._weights = list(weights)
        self._random = random

    def write(self, symbol: str) -> str:
        """A text for the symbol, with "a" before vowels made "an"."""
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", self._expand(symbol))

    def _expand(self, symbol: str) -> str:
        rules = self._rules[symbol]
        weights = [self._weights[i % len(self._weights)] for i in range(len(rules))]
        rule = self._random.choices(rules, weights)[0]
        return "".join([self._expand(part) if i % 2 else part for i, part in enumerate(rule)])

    def sentence(self, symbol: str) -> str:
        """A text for the symbol that begins with a capital."""
        text = self.write(symbol)
        return text[:1].upper() + text[1:]


def generator(random: RandomState) -> Random:
    """A generator for texts, seeded from one for arrays; it is faster for many single draws."""
    return Random(int(random.randint(2**31 - 1)))
