"""Programs that solve the generated tasks: a plain one, which takes the data as it comes, and one that knows the traps."""

from pathlib import Path
from typing import NamedTuple

from trl_mle.data_files import read_data


class Facts(NamedTuple):
    """
    What a program that knows how a task is made may know; none of it is a label.

    Args:
        metric (`str`):
            The metric.
        target (`str`), meaning (`str`):
            Column of train.csv to be predicted, and what it is.
        dependence (`str`), traps (`tuple[str, ...]`):
            How the target depends on the features, and what is wrong with them.
        leak (`str`), number (`str`), group (`str`), category (`str`):
            The columns of these traps, in a task that has them.
        coded (`str`), code (`int`):
            A column, and the value in it that stands for none.
        typed (`str`), unit (`str`), other (`str`), factor (`float`):
            A column that was typed in, its units, and how many of the other the one has.
        date (`str`, *optional*), text (`str`, *optional*):
            Columns of days and of notes, if there are any.
        noise_share (`float`):
            Share of the labels in train.csv that were drawn at random, where labels are wrong.
        classes (`int`):
            Number of classes; 0 for measurements.
        is_amount (`bool`):
            Whether the target is positive and skewed.
    """

    metric: str
    target: str
    meaning: str
    dependence: str
    traps: tuple[str, ...]
    leak: str
    number: str
    coded: str
    code: int
    group: str
    typed: str
    unit: str
    other: str
    factor: float
    category: str
    date: str | None
    text: str | None
    noise_share: float
    classes: int
    is_amount: bool


_PIECES = read_data(Path(__file__).with_name("solutions.yaml"))


def plain_program(facts: Facts) -> str:
    """A program that boosts trees on the columns as they come: texts and days as codes, gaps as medians."""
    kind = "Classifier" if facts.classes else "Regressor"
    predict = _PIECES["predict"][facts.metric].format(target=facts.target)
    return _PIECES["plain"].format(kind=kind, target=facts.target, predict=predict)


def reference_program(facts: Facts) -> str:
    """A program that undoes the traps, makes the features that the dependence asks for, and chooses among models that fit it."""
    known = facts._asdict()
    before, after = (
        "".join(_PIECES[when][trap].format(**known) for trap in facts.traps if trap in _PIECES[when])
        for when in ("before", "after")
    )
    date = text = ""
    if facts.date is not None:
        date = _PIECES["date" if facts.dependence == "calendar" else "date_dropped"].format(**known)
    if facts.text is not None:
        text = _PIECES["text" if facts.dependence == "words" else "text_dropped"].format(**known)
    noise = "noise" in facts.traps
    clean = ""
    if facts.classes:
        encode, width = _PIECES["encode_classes"], "len(names)"
        if noise:
            clean = _PIECES["clean"].format(share=facts.noise_share, rest=1 - facts.noise_share)
    else:
        y = "np.log1p(labels.to_numpy())" if facts.is_amount else "labels.to_numpy()"
        encode, width = _PIECES["encode_numbers"].format(y=y), "1"
        encode += _PIECES["clip"] if noise else ""
    kinds = _PIECES["candidates"][facts.dependence]
    models = [model for kind in kinds for model in _PIECES["models"][kind]["classes" if facts.classes else "numbers"]]
    found = "np.exp(found[:, 0])" if facts.is_amount else "found[:, 0]"
    return _PIECES["reference"].format(
        imports=_imports(facts, kinds),
        folds="StratifiedKFold" if facts.classes else "KFold",
        before=before,
        target=facts.target,
        after=after,
        date=date,
        text=text,
        features=_PIECES["features"],
        weights=_PIECES["weights" if "shift" in facts.traps else "no_weights"],
        encode=encode,
        pairs=_PIECES["pairs"] if "paired" in kinds else "",
        candidates="\n".join(f"    {model}," for model in models),
        width=width,
        submit=clean + _PIECES["submit"][facts.metric].format(target=facts.target, found=found),
    )


def _imports(facts: Facts, kinds: tuple[str, ...]) -> str:
    """What the reference takes from scikit-learn."""
    linear = {"LogisticRegression" if facts.classes else "Ridge"}
    if "shift" in facts.traps:
        linear.add("LogisticRegression")
    boosting = "HistGradientBoosting" + ("Classifier" if facts.classes else "Regressor")
    lines = [
        f"from sklearn.ensemble import {boosting}\n" if "trees" in kinds else "",
        f"from sklearn.linear_model import {', '.join(sorted(linear))}\n",
        f"from sklearn.model_selection import {'StratifiedKFold' if facts.classes else 'KFold'}\n",
        "from sklearn.preprocessing import PolynomialFeatures\n" if "paired" in kinds else "",
    ]
    return "".join(lines)
