"""The structure of a generated task: what it is, apart from its numbers."""

import hashlib
from typing import NamedTuple

import numpy as np

from trl_mle.competitions.families.words import DOMAINS
from trl_mle.competitions.metrics import METRICS, Takes


# One structure in so many is for testing
TEST_SHARE = 4
FORMS = {
    "roc_auc": "yes_or_no",
    "log_loss": "kind",
    "accuracy": "kind",
    "quadratic_weighted_kappa": "grade",
    "rmse": "value",
    "mean_columnwise_rmsle": "amount",
    "pearson_correlation": "value",
}
EVALUATIONS = {
    "roc_auc": "the area under the ROC curve",
    "log_loss": "the multi-class logarithmic loss of the probabilities of all labels",
    "accuracy": "accuracy, the share of labels that are right",
    "quadratic_weighted_kappa": "the quadratic weighted kappa of the predicted and the true grades, whole numbers from 1 to 5",
    "rmse": "the root mean squared error",
    "mean_columnwise_rmsle": "the root mean squared error of log(1 + x)",
    "pearson_correlation": "Pearson's correlation of the predicted and the true values",
}
DEPENDENCES = ("linear", "thresholds", "interactions", "calendar", "words")
# By trap: what the description says of it
TRAPS = {
    "leak": "`{leak}` is filled in only when the outcome is known{in_test}.",
    "number": "`{number}` counts the {rows} as they were filed: in train.csv by their outcome.",
    "missing": "An empty `{empty}` has a meaning of its own, and `{coded}` is {code} where nobody took it.",
    "shift": "The {rows} of test.csv have a larger `{shifted}`, on average.",
    "duplicates": "Some {rows} were entered into train.csv many times.",
    "unseen": "`{group}` begins with a region, and test.csv has codes that train.csv lacks.",
    "imbalance": "One outcome is far more frequent than the others.",
    "noise": "Some outcomes in train.csv are wrong; those of test.csv were checked.",
    "units": "`{typed}` and `{category}` were typed in by hand, the former in {unit} or in {other}.",
    "tail": "A few {rows} have by far the largest outcomes.",
}
CLASSIFICATION = tuple(name for name in FORMS if METRICS[name].takes is not Takes.NUMBERS)
# Traps that do not go with every metric
ONLY_WITH = {"imbalance": CLASSIFICATION, "tail": ("mean_columnwise_rmsle", "pearson_correlation")}


class Structure(NamedTuple):
    """What a task is, apart from its numbers."""

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


def draw_structure(random: np.random.RandomState) -> Structure:
    """A structure, of either side."""
    metric = str(random.choice(list(FORMS)))
    fitting = [trap for trap in TRAPS if metric in ONLY_WITH.get(trap, FORMS)]
    count = random.choice(4, p=[0.1, 0.35, 0.35, 0.2])
    traps = random.choice(len(fitting), count, replace=False)
    return Structure(
        str(random.choice(list(DOMAINS))),
        str(random.choice(DEPENDENCES)),
        tuple(fitting[i] for i in sorted(traps)),
        metric,
    )
