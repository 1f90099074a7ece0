"""Programs that solve the generated tasks: a plain one, which takes the data as it comes, and one that knows the traps."""

from pathlib import Path
from typing import Any

from trl_mle.data_files import read_data


_PIECES = read_data(Path(__file__).with_name("solutions.yaml"))


def plain_program(facts: dict[str, Any]) -> str:
    """A program that boosts trees on the columns as they come: texts and days as codes, gaps as medians."""
    kind = "Classifier" if facts["classes"] else "Regressor"
    predict = _PIECES["predict"][facts["metric"]].format(target=facts["target"])
    return _PIECES["plain"].format(kind=kind, target=facts["target"], predict=predict)


def reference_program(facts: dict[str, Any]) -> str:
    """A program that undoes the traps, makes the features that the dependence asks for, and chooses among models that fit it."""
    classes, traps = facts["classes"], facts["traps"]
    before, after = (
        "".join(_PIECES[when][trap].format(**facts) for trap in traps if trap in _PIECES[when])
        for when in ("before", "after")
    )
    date = text = ""
    if facts["date"] is not None:
        date = _PIECES["date" if facts["dependence"] == "calendar" else "date_dropped"].format(**facts)
    if facts["text"] is not None:
        text = _PIECES["text" if facts["dependence"] == "words" else "text_dropped"].format(**facts)
    noise = "noise" in traps
    clean = ""
    if classes:
        encode, width = _PIECES["encode_classes"], "len(names)"
        if noise:
            clean = _PIECES["clean"].format(share=facts["noise_share"], rest=1 - facts["noise_share"])
    else:
        y = "np.log1p(labels.to_numpy())" if facts["is_amount"] else "labels.to_numpy()"
        encode, width = _PIECES["encode_numbers"].format(y=y), "1"
        encode += _PIECES["clip"] if noise else ""
    kinds = _PIECES["candidates"][facts["dependence"]]
    models = [model for kind in kinds for model in _PIECES["models"][kind]["classes" if classes else "numbers"]]
    found = "np.exp(found[:, 0])" if facts["is_amount"] else "found[:, 0]"
    return _PIECES["reference"].format(
        imports=_imports(facts, kinds),
        folds="StratifiedKFold" if classes else "KFold",
        before=before,
        target=facts["target"],
        after=after,
        date=date,
        text=text,
        features=_PIECES["features"],
        weights=_PIECES["weights" if "shift" in traps else "no_weights"],
        encode=encode,
        pairs=_PIECES["pairs"] if "paired" in kinds else "",
        candidates="\n".join(f"    {model}," for model in models),
        width=width,
        submit=clean + _PIECES["submit"][facts["metric"]].format(target=facts["target"], found=found),
    )


def _imports(facts: dict[str, Any], kinds: tuple[str, ...]) -> str:
    """What the reference takes from scikit-learn."""
    linear = {"LogisticRegression" if facts["classes"] else "Ridge"}
    if "shift" in facts["traps"]:
        linear.add("LogisticRegression")
    boosting = "HistGradientBoosting" + ("Classifier" if facts["classes"] else "Regressor")
    lines = [
        f"from sklearn.ensemble import {boosting}\n" if "trees" in kinds else "",
        f"from sklearn.linear_model import {', '.join(sorted(linear))}\n",
        f"from sklearn.model_selection import {'StratifiedKFold' if facts['classes'] else 'KFold'}\n",
        "from sklearn.preprocessing import PolynomialFeatures\n" if "paired" in kinds else "",
    ]
    return "".join(lines)
