"""What the grammar's programs choose from: facts about competitions from tasks.yaml, models from estimators.yaml."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trl_mle.data_files import read_data


@dataclass(frozen=True)
class Part:
    """One part of the features, for train and test together. A program chooses some parts and concatenates them."""

    words: str  # its name in the plan
    code: str  # two-dimensional, of `both` (train, then test) or of the task's base; `{settings}` are arguments
    weight: float = 1  # relative frequency of choosing it
    # Values to choose from, by keyword, or by "" for a bare value. The first is always set, the others half the time
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)
    before: str = ""  # lines of code that must precede it
    imports: tuple[str, ...] = ()  # besides numpy and pandas


@dataclass(frozen=True)
class Estimator:
    """A model that a program can choose."""

    words: str  # its name in the plan
    name: str  # its class in scikit-learn; a final * stands for Classifier or Regressor
    module: str  # of scikit-learn
    weight: float  # relative frequency of choosing it
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)  # as of a `Part`, by keyword


@dataclass(frozen=True)
class Task:
    """Facts that a program needs about a competition, or about one way to solve it."""

    # One column per class, the positive class, or one column per number
    kind: Literal["probabilities", "probability", "class", "number", "numbers"]
    target: str  # column of train to predict
    parts: tuple[Part, ...]
    base: tuple[str, ...] = ()  # alternative lines before the features, which clean the data in different ways
    column: str = ""  # of submission.csv; "probabilities" and "numbers" fill all columns except the first
    labels: str = ""  # an expression of `train`, by default the target
    answers: tuple[str, ...] = ()  # alternative expressions of `pred` to submit; "probabilities" need none
    logs: bool = False  # whether a program may predict the logarithm of the target
    prepare: str = ""  # lines that run right after the tables are loaded
    imports: tuple[str, ...] = ()  # of every program, besides numpy and pandas
    reader: str = "read_csv"  # the pandas function that reads train and test
    train: str = "train.csv"
    test: str = "test.csv"
    sample: str = "sample_submission.csv"
    unfit: tuple[str, ...] = ()  # models that are too slow or invalid here, by their names in the plan
    weight: float = 1  # relative frequency among the competition's ways

    def __post_init__(self) -> None:
        if not self.labels:
            object.__setattr__(self, "labels", f'train["{self.target}"]')
        if not self.answers:
            object.__setattr__(self, "answers", ("pred[:, 1]" if self.kind == "probability" else "pred",))


def _parts(entries: Iterable[str | dict[str, Any]]) -> tuple[Part, ...]:
    """The parts of an entry, in which a group's name stands for its parts."""
    groups = (_parts(_DATA["groups"][entry]) if isinstance(entry, str) else (Part(**entry),) for entry in entries)
    return tuple(part for group in groups for part in group)


_DATA = read_data(Path(__file__).with_name("tasks.yaml"))
NUMBERS, TEXT = _parts(["numbers"]), _parts(["text"])
TASKS: dict[str, tuple[Task, ...]] = {
    competition: tuple(Task(**entry | {"parts": _parts(entry["parts"])}) for entry in entries)
    for competition, entries in _DATA["tasks"].items()
}
_MODELS = read_data(Path(__file__).with_name("estimators.yaml"))
CLASSIFIERS, REGRESSORS = (
    tuple(Estimator(**entry) for entry in (*_MODELS["common"], *_MODELS[kind]))
    for kind in ("classifiers", "regressors")
)
# Their code transforms the features before the model; the one without words does nothing
TRANSFORMS = tuple(Part(**entry) for entry in _MODELS["transforms"])
