"""Programs that solve the generated tasks: one takes the data as it comes, and one knows the traps."""

import re
from pathlib import Path

from trl_mle.competitions.families.task import task_contents
from trl_mle.data_files import read_data


PIECES = read_data(Path(__file__).with_name("solutions.yaml"))


def plain_solution(task_id: str) -> str:
    """A program that knows of no trap: boosted trees on the columns as they come, texts as codes, gaps as medians."""
    facts = task_contents(task_id).facts
    predict = PIECES["predict"][facts["metric"]].format(**facts)
    model = "Classifier" if facts["classes"] else "Regressor"
    return PIECES["plain"].format(target=facts["target"], model=model, predict=predict)


def reference_solution(task_id: str) -> str:
    """A program that undoes the traps, makes the features that the dependence asks for, and chooses among models."""
    facts = task_contents(task_id).facts
    classes, traps, dependence = facts["classes"], facts["traps"], facts["dependence"]
    kinds = PIECES["candidates"][dependence]
    models = [model for kind in kinds for model in PIECES["models"][kind]["classes" if classes else "numbers"]]
    steps = [PIECES["after"][trap] for trap in traps if trap in PIECES["after"]]
    for column, needed_by in (("date", "calendar"), ("text", "words")):
        if facts[column] is not None:
            steps.append(PIECES[column if dependence == needed_by else f"{column}_dropped"])
    steps += [PIECES["features"], PIECES["weights" if "shift" in traps else "no_weights"]]
    steps.append(PIECES["encode_classes" if classes else "encode_numbers"])
    if "noise" in traps and not classes:
        steps.append(PIECES["clip"])
    if "paired" in kinds:
        steps.append(PIECES["pairs"])
    submit = PIECES["clean"] if "noise" in traps and classes else ""
    facts = facts | {"y": "labels.to_numpy()", "found": "found[:, 0]", "rest": 1 - facts["noise_share"]}
    if facts["is_amount"]:
        facts |= {"y": "np.log1p(labels.to_numpy())", "found": "np.exp(found[:, 0])"}
    program = PIECES["reference"].format(
        before=PIECES["before"] if "duplicates" in traps else "",
        target=facts["target"],
        steps="".join(steps).format(**facts),
        candidates="\n".join(f"    {model}," for model in models),
        folds="StratifiedKFold" if classes else "KFold",
        width="len(names)" if classes else "1",
        submit=(submit + PIECES["submit"][facts["metric"]]).format(**facts),
    )
    return f"import numpy as np\nimport pandas as pd\n{_imports(program)}\n\n{program}"


def _imports(program: str) -> str:
    """What a program takes from scikit-learn."""
    used = {
        module: [name for name in names if re.search(rf"\b{name}\(", program)]
        for module, names in PIECES["imports"].items()
    }
    return "".join(f"from sklearn.{module} import {', '.join(names)}\n" for module, names in used.items() if names)
