"""Programs that solve the generated tasks: a plain one, which takes the data as it comes, and one that knows the traps."""

from collections.abc import Sequence
from typing import NamedTuple


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


_PLAIN = """\
import pandas as pd
from sklearn.ensemble import HistGradientBoosting{kind}


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
y = train["{target}"]
both = pd.concat([train.drop(columns="{target}"), test], ignore_index=True).drop(columns="id")
for name in both:
    if pd.api.types.is_numeric_dtype(both[name]):
        both[name] = both[name].fillna(both[name].median())
    else:
        both[name] = both[name].astype(str).astype("category").cat.codes
X, X_test = both[: len(train)], both[len(train) :]
model = HistGradientBoosting{kind}(random_state=0).fit(X, y)
{predict}
submission.to_csv("submission.csv", index=False)
"""

_LABEL = 'submission = pd.DataFrame({{"id": test["id"], "{target}": model.predict(X_test)}})'
_CHANCE = 'submission = pd.DataFrame({{"id": test["id"], "{target}": model.predict_proba(X_test)[:, 1]}})'
_CHANCES = """\
submission = pd.DataFrame(model.predict_proba(X_test), columns=model.classes_)
submission.insert(0, "id", test["id"])"""
_AMOUNT = 'submission = pd.DataFrame({{"id": test["id"], "{target}": model.predict(X_test).clip(0)}})'
_PREDICT = {
    "roc_auc": _CHANCE,
    "log_loss": _CHANCES,
    "accuracy": _LABEL,
    "quadratic_weighted_kappa": _LABEL,
    "rmse": _LABEL,
    "mean_columnwise_rmsle": _AMOUNT,
    "pearson_correlation": _LABEL,
}


def plain_program(facts: Facts) -> str:
    """A program that boosts trees on the columns as they come: texts and days as codes, gaps as medians."""
    kind = "Classifier" if facts.classes else "Regressor"
    predict = _PREDICT[facts.metric].format(target=facts.target)
    return _PLAIN.format(kind=kind, target=facts.target, predict=predict)


# What a program does about a trap, in the order of the traps: before the two tables are joined, and after
_BEFORE = {
    "duplicates": "train = train.drop_duplicates(subset=[name for name in train if name != 'id'], ignore_index=True)\n"
}
_AFTER = {
    "leak": 'both = both.drop(columns="{leak}")  # tells the outcome in train.csv, and nothing in test.csv\n',
    "number": 'both = both.drop(columns="{number}")  # train.csv was filed by outcome\n',
    "missing": 'both["{coded}"] = both["{coded}"].replace({code}, np.nan)\n',
    "unseen": 'both["{group}"] = both["{group}"].str.split("-").str[0]  # the region, which all codes have\n',
    "units": """\
parts = both["{typed}"].str.replace(",", ".").str.extract(r"([-+.e\\d]+) *([a-z]+)")
both["{typed}"] = parts[0].astype(float) / parts[1].map({{"{unit}": 1, "{other}": {factor}}})
both["{category}"] = both["{category}"].str.strip().str.lower()
""",
}
_DATE = """\
day = pd.to_datetime(both.pop("{date}"))
both["weekday"] = day.dt.day_name()
for k in (1, 2):
    both[f"sin_{{k}}"], both[f"cos_{{k}}"] = (f(2 * np.pi * k * day.dt.day_of_year / 365.25) for f in (np.sin, np.cos))
"""
_DATE_DROPPED = 'both = both.drop(columns="{date}")\n'
_TEXT = """\
notes = both.pop("{text}").str.lower().str.split(r", |; | - |\\. ", regex=True)
phrases = sorted({{phrase for note in notes for phrase in note}})
for phrase in phrases:
    both[phrase] = [float(phrase in note) for note in notes]
"""
_TEXT_DROPPED = 'both = both.drop(columns="{text}")\n'

_FEATURES = """\
for name in both.select_dtypes("number"):
    gaps = both[name].isna()
    if gaps.any():
        both[name + " missing"] = gaps.astype(float)
    if both[name].min() > 0 and both[name].skew() > 0.8:
        both[name] = np.log(both[name])
    both[name] = both[name].fillna(both[name].median())
X = pd.get_dummies(both, dtype=float)
X = (X - X.mean()) / X.std().replace(0, 1)
X, X_test = X[: len(train)].to_numpy(), X[len(train) :].to_numpy()
"""

_NO_WEIGHTS = "weights = np.ones(len(X))\n"
_WEIGHTS = """\
# Rows of train.csv count by how much they look like those of test.csv
look = LogisticRegression(C=0.1).fit(np.vstack([X, X_test]), np.repeat([0, 1], [len(X), len(X_test)]))
odds = np.exp(look.decision_function(X) / 2)
weights = (odds / odds.mean()).clip(0.2, 5)
"""

_REFERENCE = """\
import numpy as np
import pandas as pd
{imports}

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
{before}labels = train.pop("{target}")
both = pd.concat([train, test], ignore_index=True).drop(columns="id")
{after}{date}{text}{features}{weights}{encode}{pairs}candidates = [
{candidates}
]
folds = {folds}(3, shuffle=True, random_state=0)
inside, outside, losses = [], [], []
for model, A, A_test in candidates:
    held = np.zeros((len(y), {width}))
    for fit, hold in folds.split(A, y):
        held[hold] = predict(model.fit(A[fit], y[fit], sample_weight=weights[fit]), A[hold])
    inside.append(held)
    outside.append(predict(model.fit(A, y, sample_weight=weights), A_test))
    losses.append(loss(held))
best, second = np.argsort(losses)[:2]
share = min((0, 0.25, 0.5), key=lambda share: loss((1 - share) * inside[best] + share * inside[second]))
found = (1 - share) * outside[best] + share * outside[second]
{submit}
submission.to_csv("submission.csv", index=False)
"""

# Models of classes, and of numbers: linear ones, linear ones of products of two features, and trees
_LINEAR = (
    (
        "(LogisticRegression(C=0.03, max_iter=200), X, X_test)",
        "(LogisticRegression(C=0.3, max_iter=200), X, X_test)",
    ),
    ("(Ridge(3), X, X_test)", "(Ridge(30), X, X_test)"),
)
_PAIRED = (
    (
        "(LogisticRegression(C=0.0005, max_iter=100), P, P_test)",
        "(LogisticRegression(C=0.003, max_iter=100), P, P_test)",
    ),
    ("(Ridge(100), P, P_test)", "(Ridge(400), P, P_test)"),
)
_TREES = (
    (
        "(HistGradientBoostingClassifier(learning_rate=0.08, max_iter=90, max_leaf_nodes=6, l2_regularization=3), X, X_test)",
    ),
    (
        "(HistGradientBoostingRegressor(learning_rate=0.06, max_iter=200, max_leaf_nodes=6, l2_regularization=3), X, X_test)",
    ),
)
_CANDIDATES = {
    "linear": (_LINEAR,),
    "thresholds": (_LINEAR, _TREES),
    "interactions": (_PAIRED, _TREES),
    "calendar": (_LINEAR,),
    "words": (_LINEAR,),
}
_PAIRS = """\
pairs = PolynomialFeatures(2, include_bias=False).fit(X)
P, P_test = pairs.transform(X), pairs.transform(X_test)
spread = P.std(axis=0) + 1e-9
P, P_test = P / spread, P_test / spread
"""

_ENCODE_CLASSES = """\
names, y = np.unique(labels, return_inverse=True)
predict = lambda model, A: model.predict_proba(A)
loss = lambda chances: -np.average(np.log(chances[np.arange(len(y)), y].clip(1e-6)), weights=weights)
"""
_ENCODE_NUMBERS = """\
y = {y}
predict = lambda model, A: model.predict(A)[:, None]
loss = lambda values: np.average((values[:, 0] - y) ** 2, weights=weights)
"""
_CLIP = """\
middle = np.median(y)
reach = 4 * 1.4826 * np.median(abs(y - middle))
sane = abs(y - middle) < reach  # the others are mistakes
X, y, weights = X[sane], y[sane], weights[sane]
"""
_CLEAN = """\
found = ((found - {share:.3f} / len(names)) / {rest:.3f}).clip(0.01)  # as many labels were drawn at random
found /= found.sum(axis=1, keepdims=True)
"""

_SUBMIT = {
    "roc_auc": 'submission = pd.DataFrame({{"id": test["id"], "{target}": found[:, 1]}})',
    "log_loss": 'submission = pd.DataFrame(found, columns=names)\nsubmission.insert(0, "id", test["id"])',
    "accuracy": 'submission = pd.DataFrame({{"id": test["id"], "{target}": names[found.argmax(axis=1)]}})',
    "quadratic_weighted_kappa": """\
# The grades with the best kappa to be expected: E[(a - b)²] - r E[(a - b')²] is least, where r is their quotient
squares = (np.arange(len(names))[:, None] - np.arange(len(names))) ** 2.0
own, other, r = found @ squares, found.mean(axis=0) @ squares, 0
for _ in range(20):
    grades = (own - r * other).argmin(axis=1)
    r = own[np.arange(len(grades)), grades].mean() / max(other[grades].mean(), 1e-9)
submission = pd.DataFrame({{"id": test["id"], "{target}": names[grades]}})""",
    "rmse": 'submission = pd.DataFrame({{"id": test["id"], "{target}": found[:, 0]}})',
    "mean_columnwise_rmsle": 'submission = pd.DataFrame({{"id": test["id"], "{target}": np.expm1(found[:, 0]).clip(0)}})',
    "pearson_correlation": 'submission = pd.DataFrame({{"id": test["id"], "{target}": {found}}})',
}


def reference_program(facts: Facts) -> str:
    """A program that undoes the traps, makes the features that the dependence asks for, and chooses among models that fit it."""
    known = facts._asdict()
    before = "".join(_BEFORE[trap].format(**known) for trap in facts.traps if trap in _BEFORE)
    after = "".join(_AFTER[trap].format(**known) for trap in facts.traps if trap in _AFTER)
    date = text = ""
    if facts.date is not None:
        date = (_DATE if facts.dependence == "calendar" else _DATE_DROPPED).format(**known)
    if facts.text is not None:
        text = (_TEXT if facts.dependence == "words" else _TEXT_DROPPED).format(**known)
    noise = "noise" in facts.traps
    if facts.classes:
        encode, width = _ENCODE_CLASSES, "len(names)"
        clean = _CLEAN.format(share=facts.noise_share, rest=1 - facts.noise_share) if noise else ""
    else:
        y = "np.log1p(labels.to_numpy())" if facts.is_amount else "labels.to_numpy()"
        encode, width = _ENCODE_NUMBERS.format(y=y), "1"
        encode += _CLIP if noise else ""
        clean = ""
    kinds = _CANDIDATES[facts.dependence]
    found = "np.exp(found[:, 0])" if facts.is_amount else "found[:, 0]"
    return _REFERENCE.format(
        imports=_imports(facts, kinds),
        folds="StratifiedKFold" if facts.classes else "KFold",
        before=before,
        target=facts.target,
        after=after,
        date=date,
        text=text,
        features=_FEATURES,
        weights=_WEIGHTS if "shift" in facts.traps else _NO_WEIGHTS,
        encode=encode,
        pairs=_PAIRS if _PAIRED in kinds else "",
        candidates="\n".join(
            f"    {model},"
            for of_classes, of_numbers in kinds
            for model in (of_classes if facts.classes else of_numbers)
        ),
        width=width,
        submit=clean + _SUBMIT[facts.metric].format(target=facts.target, found=found),
    )


def _imports(facts: Facts, kinds: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> str:
    """What the reference takes from scikit-learn."""
    linear = [name for name in ("LogisticRegression", "Ridge") if (name == "Ridge") != bool(facts.classes)]
    if "shift" in facts.traps:
        linear = sorted({*linear, "LogisticRegression"})
    boosting = "HistGradientBoosting" + ("Classifier" if facts.classes else "Regressor")
    lines = [
        f"from sklearn.ensemble import {boosting}\n" if _TREES in kinds else "",
        f"from sklearn.linear_model import {', '.join(linear)}\n",
        f"from sklearn.model_selection import {'StratifiedKFold' if facts.classes else 'KFold'}\n",
        "from sklearn.preprocessing import PolynomialFeatures\n" if _PAIRED in kinds else "",
    ]
    return "".join(lines)
