"""Programs as small models write them, and the milestones for which a print can be placed in each."""

import re

from trl_mle.instrumentation import MILESTONES


# A line with name and milestones begins each program. Many more, with labels, are in benchmarks/milestones
_PROGRAMS = r"""
### validation_only: imports train_data model_built model_trained
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
df = pd.read_csv("input/train.csv")
X_train, X_test, y_train, y_test = train_test_split(df[["a"]], df["y"], test_size=0.2)
clf = LogisticRegression()
clf.fit(X_train, y_train)
print(accuracy_score(y_test, clf.predict(X_test)))
### transformers_only: imports train_data test_data
import pandas as pd
from sklearn.preprocessing import StandardScaler
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
train = pd.read_json("input/train.json")
test = pd.read_json("input/test.json")
scaler = StandardScaler()
scaler.fit(train)
steps = make_pipeline(StandardScaler(), PCA(2))
Z = steps.fit_transform(train)
### imports_in_function: imports train_data
def main():
    import numpy as np
    import pandas as pd
    train = pd.read_csv("input/train.csv")
    print(np.mean(train["y"]))

main()
### never_called: imports
import pandas as pd
from sklearn.svm import SVC

def main():
    train = pd.read_csv("input/train.csv")
    SVC().fit(train[["a"]], train["y"])
### at_times: imports train_data model_built
import os
import pandas as pd
from sklearn.svm import SVC
def load(path):
    if os.path.exists(path):
        return pd.read_csv(path)
    return None
train = pd.read_csv("input/train.csv")
test = load("input/test.csv")
model = SVC()
if len(train) > 10**9: model.fit(train[["a"]], train["y"])
### swallowed_failure: imports train_data test_data model_built model_trained
import pandas as pd
from sklearn.linear_model import Ridge
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
def attempt(m, X):
    try:
        return m.predict(X)
    except Exception:
        return None
model = Ridge()
try:
    model.fit(train[["a"]], train["y"])
except ValueError as error:
    print(error)
pred = attempt(model, test[["a"]])
### behind_an_exit: imports train_data
import sys
import pandas as pd
train = pd.read_csv("train.csv")
sys.exit("enough")
test = pd.read_csv("test.csv")
test.to_csv("submission.csv")
### switched_off: imports test_data predictions submission
import pandas as pd
TRAIN, RULES = False, True
USE_MODEL = False
LATER = False
LATER = len("x") == 1
def main(USE_RULES=True):
    if USE_MODEL:
        train = pd.read_csv("train.csv")
    else:
        test = pd.read_csv("test.csv")
    test["y"] = test["a"] * 2
    if LATER:
        test.to_csv("submission.csv")
main()
### rules_row_by_row: imports test_data predictions submission
import csv
def answers(path):
    with open(path) as f:
        yield from csv.DictReader(f)
def main(out):
    with open(out, "w") as target:
        for row in answers("input/test.csv"):
            target.write(row["id"] + "," + str(len(row["text"])))
main("submission.csv")
### everything_imported: imports train_data model_built model_trained
from pandas import *
from sklearn.ensemble import *
from os.path import *
frame = read_csv("train.csv")
model = RandomForestClassifier()
model.fit(frame, frame["y"])
"""
# name -> (program, milestones)
PROGRAMS = {
    name: (source, set(MILESTONES if words == "all" else words.split()))
    for name, words, source in re.findall(r"^### (\w+): (.*)\n((?:(?!###).*\n)*)", _PROGRAMS, re.MULTILINE)
}

# Programs in which no print may be placed.
UNTOUCHED = {
    "syntax_error": "import pandas as pd\ntrain = pd.read_csv('train.csv'\n",
    "nul": "import os\0\n",
    "nested": "x = " + "(" * 5000 + ")" * 5000,
    "deep": "import os\nx = " + "-" * 20000 + "1\n",
    "surrogate": "import os\nx = '\ud800'\n",
    "own_print": "import os\ndef print(*a, **k):\n    pass\n",
    "rich": "from rich import print\nimport os\n",
    "builtins": "import builtins\nbuiltins.print = lambda *a, **k: None\n",
    "empty": "",
}


ASKED_ABOUT = """\
import pandas as pd
from sklearn.linear_model import LogisticRegression
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = LogisticRegression(C={number})
model.fit(train.drop(columns=["id", "label"]), train["label"])
predictions = model.predict(test.drop(columns=["id"]))
pd.DataFrame({{"id": test["id"], "label": predictions}}).to_csv("submission.csv", index=False)
"""
LINES = dict(zip(MILESTONES, [2, 3, 4, 5, 6, 7, 8], strict=True))


def ideal(prompt, max_tokens):
    """A perfect model's answer about one of these programs, in either mode."""
    code = prompt.rpartition("```python\n")[2].partition("\n```")[0].splitlines()
    if "Copy the line" in prompt:
        return "\n".join(f"{milestone}: {code[line - 1]}" for milestone, line in LINES.items()), 40
    lines = code
    for milestone, line in reversed(LINES.items()):
        lines.insert(line, f'print("milestone: {milestone}")')
    return "```python\n" + "\n".join(lines) + "\n```", 300
