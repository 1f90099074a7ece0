"""The structure of a generated task: what it is, apart from its numbers."""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.families.words import DOMAINS
from trl_mle.data_files import read_data


PREFIX = "task:"
TEST_SHARE = 4  # one structure in so many is for testing
TEXTS = read_data(Path(__file__).with_name("texts.yaml"))
TRAPS = TEXTS["traps"]  # what the description says of each
FORMS = {metric: form for metric, (form, _) in TEXTS["metrics"].items()}
DEPENDENCES = ("linear", "thresholds", "interactions", "calendar", "words")
# Traps that do not go with every metric
ONLY_WITH = {
    "imbalance": ("roc_auc", "log_loss", "accuracy", "quadratic_weighted_kappa"),
    "tail": ("mean_columnwise_rmsle", "pearson_correlation"),
}


class Structure(NamedTuple):
    """What a task is."""

    domain: str  # a key of `DOMAINS`
    dependence: str  # how the target depends on the features, one of `DEPENDENCES`
    traps: tuple[str, ...]  # keys of `TRAPS`, in their order there; at most three
    metric: str  # a key of `METRICS`

    @property
    def side(self) -> str:
        """`"train"` or `"test"`, whichever this structure belongs to."""
        text = "|".join((self.domain, self.dependence, *self.traps, self.metric))
        return "train" if hashlib.sha256(text.encode()).digest()[0] % TEST_SHARE else "test"

    @property
    def form(self) -> str:
        """The form of its target: a value of `FORMS`."""
        return "amount" if "tail" in self.traps else FORMS[self.metric]


def structure_of(task_id: str) -> Structure:
    return seeded(task_id)[0]


def seeded(task_id: str) -> tuple[Structure, RandomState]:
    """The structure of a task, and what draws the rest."""
    side = re.fullmatch(rf"{PREFIX}(train|test)/(0|[1-9][0-9]{{0,17}})", task_id)
    if side is None:
        raise CompetitionError(f"there is no competition {task_id!r}; write task:train/<n> or task:test/<n>")
    # RandomState because numpy promises that its stream never changes
    random = RandomState(np.frombuffer(hashlib.sha256(task_id.encode()).digest(), ">u4").astype(np.uint32))
    while (structure := _draw_structure(random)).side != side[1]:
        pass
    return structure, random


def _draw_structure(random: RandomState) -> Structure:
    metric = str(random.choice(list(FORMS)))
    fitting = [trap for trap in TRAPS if metric in ONLY_WITH.get(trap, FORMS)]
    count = random.choice(4, p=[0.1, 0.35, 0.35, 0.2])
    traps = tuple(fitting[i] for i in sorted(random.choice(len(fitting), count, replace=False)))
    domain = str(random.choice(list(DOMAINS)))
    return Structure(domain, str(random.choice(DEPENDENCES)), traps, metric)
