"""Facts about a competition that the grammar's programs use: files, labels, and parts of features, from tasks.yaml."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trl_mle.data_files import read_data


@dataclass(frozen=True)
class Part:
    """
    One part of the features, for train and test together. A program chooses some parts and concatenates them.

    Args:
        words (`str`):
            Its name in the plan.
        code (`str`):
            A two-dimensional expression of `both` (the rows of train, then of test) or of the variable that the task's
            `base` creates. `{settings}` stands for arguments.
        weight (`float`, *optional*, defaults to `1`):
            Relative frequency of choosing it.
        settings (`dict[str, tuple]`, *optional*):
            Values to choose from, by keyword, or by `""` for a bare value. The first is always set, the others half of the
            time each.
        before (`str`, *optional*):
            Lines of code that must precede it.
        imports (`tuple[str, ...]`, *optional*):
            Imports that it needs besides numpy and pandas.
    """

    words: str
    code: str
    weight: float = 1
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)
    before: str = ""
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """
    Facts that a program needs about a competition, or about one way to solve it.

    Args:
        kind (`str`):
            Type of the prediction: `"probabilities"` (one column per class), `"probability"` (of the positive class),
            `"class"`, `"number"` or `"numbers"` (one column each).
        target (`str`):
            Column of train to predict.
        parts (`tuple[Part, ...]`):
            Parts of the features.
        base (`tuple[str, ...]`, *optional*):
            Alternative lines before the features, one of which is used. All are correct; they differ in how they clean
            the data.
        column (`str`, *optional*, defaults to `""`):
            Column of submission.csv to fill. Not used by `"probabilities"` and `"numbers"`, which fill all columns
            except the first.
        labels (`str`, *optional*):
            The labels, as an expression of `train`. Defaults to the column `target`.
        answers (`tuple[str, ...]`, *optional*):
            Expressions of `pred` to submit; not used by `"probabilities"`. Defaults to `pred` itself, and to its
            second column for `"probability"`.
        logs (`bool`, *optional*, defaults to `False`):
            Whether a program may predict the logarithm of the target.
        prepare (`str`, *optional*):
            Lines that run right after the tables are loaded.
        imports (`tuple[str, ...]`, *optional*):
            Imports that every program needs besides numpy and pandas.
        reader (`str`, *optional*, defaults to `"read_csv"`):
            The pandas function that reads train and test.
        train (`str`, *optional*, defaults to `"train.csv"`):
            Name of the file with the labels.
        test (`str`, *optional*, defaults to `"test.csv"`):
            Name of the file to predict.
        sample (`str`, *optional*, defaults to `"sample_submission.csv"`):
            Name of the sample submission.
        unfit (`tuple[str, ...]`, *optional*):
            Models that are too slow or invalid here, by their names in the plan.
        weight (`float`, *optional*, defaults to `1`):
            Relative frequency of this way among the competition's ways.
    """

    kind: Literal["probabilities", "probability", "class", "number", "numbers"]
    target: str
    parts: tuple[Part, ...]
    base: tuple[str, ...] = ()
    column: str = ""
    labels: str = ""
    answers: tuple[str, ...] = ()
    logs: bool = False
    prepare: str = ""
    imports: tuple[str, ...] = ()
    reader: str = "read_csv"
    train: str = "train.csv"
    test: str = "test.csv"
    sample: str = "sample_submission.csv"
    unfit: tuple[str, ...] = ()
    weight: float = 1

    def __post_init__(self) -> None:
        if not self.labels:
            object.__setattr__(self, "labels", f'train["{self.target}"]')
        if not self.answers:
            object.__setattr__(self, "answers", ("pred[:, 1]" if self.kind == "probability" else "pred",))


def _parts(entries: Iterable[str | dict[str, Any]]) -> tuple[Part, ...]:
    """Makes the parts of an entry, in which a group's name stands for its parts."""
    parts: list[Part] = []
    for entry in entries:
        parts += _parts(_DATA["groups"][entry]) if isinstance(entry, str) else [Part(**entry)]
    return tuple(parts)


_DATA = read_data(Path(__file__).with_name("tasks.yaml"))
NUMBERS, TEXT = _parts(["numbers"]), _parts(["text"])
TASKS: dict[str, tuple[Task, ...]] = {
    competition: tuple(Task(**entry | {"parts": _parts(entry["parts"])}) for entry in entries)
    for competition, entries in _DATA["tasks"].items()
}
