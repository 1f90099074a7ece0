"""Mirrors: synthetic data in a competition's format with a learnable signal, and helpers to draw it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pandas as pd

from trl_mle.data_files import read_data


VOCABULARY = read_data(Path(__file__).with_name("vocabulary.yaml"))


class Drawn(NamedTuple):
    """All rows of a mirror, train and test, as its generator has drawn them."""

    table: pd.DataFrame  # the columns of train.csv, without the id
    targets: pd.DataFrame  # the labels in the form of a submission, without the id
    ceiling: pd.DataFrame  # the best predictions: from full knowledge of the generator, but not of the labels' noise
    attachments: list[bytes] | None = None  # one more file for each row


@dataclass(frozen=True)
class Mirror:
    """How a mirror is made; mirrors.yaml has its description."""

    rows: int  # by default, train and test together
    draw: Callable[[int, np.random.RandomState], Drawn]  # draws that many rows
    sample: Mapping[str, float | str]  # what the sample submission predicts everywhere, by target column
    # Ids of that many rows of the train and of the test set; without it the id is a column of `table`
    ids: Callable[[int, int, np.random.RandomState], list] | None = None
    attachment: str = ""  # path of a row's attachment below public/, with {part} (train or test) and {id}
    least_rows: int = 50
    # Turns the usual files, by path below the prepared folder, into those of a competition with special formats
    adapt: Callable[[dict[str, pd.DataFrame]], Mapping[str, pd.DataFrame | bytes]] = dict


def exact_shares(shares: list[float], rows: int, random: np.random.RandomState) -> np.ndarray:
    """Class numbers of that many rows, in random order, with each class as often as its share says."""
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * rows).astype(int)
    return random.permutation(np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0)))


def cut(values: np.ndarray, shares: list[float]) -> np.ndarray:
    """The rank of each value as a class number, with each class as often as its share says."""
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * len(values)).astype(int)
    return np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0))[values.argsort(kind="stable").argsort()]


def mislabel(classes: np.ndarray, n_classes: int, share: float, random: np.random.RandomState) -> np.ndarray:
    """What the features show instead of the label: in this share of the rows a class drawn at random."""
    return np.where(random.random_sample(len(classes)) < share, random.randint(0, n_classes, len(classes)), classes)


def posterior(shown: np.ndarray, classes: np.ndarray, n_classes: int, share: float) -> np.ndarray:
    """P(class | what [`mislabel`] shows) of each row, shape (rows, n_classes), by Bayes' rule."""
    priors = np.bincount(classes, minlength=n_classes) / len(classes)
    likelihood = (1 - share) * np.eye(n_classes) + share / n_classes  # [class, shown]
    joint = priors[:, None] * likelihood
    return (joint / joint.sum(axis=0))[:, shown].T


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The logistic function."""
    return 1 / (1 + np.exp(-logits))


def integer_ids(low: int, high: int, prefix: str = "") -> Callable[[int, int, np.random.RandomState], list]:
    """Ids that are random numbers from [low, high), all different, in no order."""

    def ids(train: int, test: int, random: np.random.RandomState) -> list:
        numbers = dict[int, None]()  # a set that keeps its order
        while len(numbers) < train + test:
            numbers.update(dict.fromkeys(random.randint(low, high, train + test, dtype=np.int64).tolist()))
        drawn = list(numbers)[: train + test]
        return [f"{prefix}{number}" for number in drawn] if prefix else drawn

    return ids


def hex_ids(digits: int) -> Callable[[int, int, np.random.RandomState], list]:
    """Ids of that many hexadecimal digits, all different."""

    def ids(train: int, test: int, random: np.random.RandomState) -> list:
        return [f"{number:0{digits}x}" for number in integer_ids(0, min(16**digits, 2**62))(train, test, random)]

    return ids


def consecutive_ids(train_prefix: str = "", test_prefix: str = "", start: int = 0) -> Callable:
    """Ids that count up in each part."""

    def ids(train: int, test: int, random: np.random.RandomState) -> list:
        numbers = [(train_prefix, start + i) for i in range(train)] + [(test_prefix, start + i) for i in range(test)]
        return [f"{prefix}{number}" if prefix else number for prefix, number in numbers]

    return ids


class Grammar:
    """
    Writes texts by a grammar without memory: a symbol becomes one of its alternatives, which "|" separates, and so on;
    `{symbol}` stands for a symbol. Line ends and indentation do not count. `weight` is that of a symbol's i-th alternative.
    """

    def __init__(self, rules: Mapping[str, str], random: Random, weight: Callable[[int], float] = lambda i: 1):
        # Split by the symbols, an alternative has its words at even places and symbols at odd ones.
        self._rules = {
            symbol: [re.split(r"\{(\w+)\}", text) for text in re.sub(r"\n\s*", "", alternatives).split("|")]
            for symbol, alternatives in rules.items()
        }
        self._weights = {
            symbol: list(accumulate(map(weight, range(len(rule))))) for symbol, rule in self._rules.items()
        }
        self._random = random

    def write(self, symbol: str) -> str:
        """A text for the symbol, with "a" before vowels made "an"."""
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", self._expand(symbol))

    def _expand(self, symbol: str) -> str:
        rule = self._random.choices(self._rules[symbol], cum_weights=self._weights[symbol])[0]
        return "".join([self._expand(part) if i % 2 else part for i, part in enumerate(rule)])

    def sentence(self, symbol: str) -> str:
        """A text for the symbol that begins with a capital."""
        text = self.write(symbol)
        return text[:1].upper() + text[1:]


def generator(random: np.random.RandomState) -> Random:
    """A generator for texts, seeded from one for arrays; it is faster for many single draws."""
    return Random(int(random.randint(2**31 - 1)))
