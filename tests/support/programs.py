"""Programs as small models write them, and the milestones for which a print can be placed in each."""

import re

from trl_mle.instrumentation import MILESTONES


# A line with name and milestones begins each program. Many more, with labels, are in benchmarks/milestones
_PROGRAMS = r'''
### main_guard: all
"""A docstring."""
from __future__ import annotations

import os
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

DATA = "input"

def load(name):
    return pd.read_csv(os.path.join(DATA, name))  # both files

def main():
    train, test = load("train.csv"), load("test.csv")
    model = RandomForestClassifier(n_estimators=10, random_state=0)
    model.fit(train[["a", "b"]], train["y"])
    preds = model.predict(test[["a", "b"]])
    sub = pd.read_csv(os.path.join(DATA, "sample_submission.csv"))
    sub["y"] = preds
    sub.to_csv("submission.csv", index=False)

if __name__ == "__main__":
    main()
### fails_before_training: all
import pandas as pd
from sklearn.linear_model import LogisticRegression
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = LogisticRegression()
model.fit(train[["a", "missing"]], train["y"])
test["y"] = model.predict(test[["a", "b"]])
test[["id", "y"]].to_csv("submission.csv", index=False)
### fails_on_second_file: imports train_data test_data model_built model_trained submission
import pandas as pd
from sklearn.tree import DecisionTreeClassifier
def read(path):
    frame = pd.read_csv(path)
    return frame
train = read("input/train.csv")
test = read("input/test_features.csv")
model = DecisionTreeClassifier().fit(train[["a"]], train.y)
val = model.predict(train[["a"]])
pd.DataFrame({"id": test.id, "y": 0}).to_csv("submission.csv")
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
### torch_loop: all
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x):
        return self.layers(x)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.tensor(train[["a", "b"]].values), torch.tensor(train["y"].values)), 32)
for epoch in range(3):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
model.eval()
with torch.no_grad():
    preds = model(torch.tensor(test[["a", "b"]].values).to(device)).cpu().numpy()
test["y"] = preds
test[["id", "y"]].to_csv("submission.csv", index=False)
### hf_trainer: imports train_data model_built model_trained predictions submission
import pandas as pd
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
data = load_dataset("csv", data_files="input/train.csv")
tokenizer = AutoTokenizer.from_pretrained("bert")
model = AutoModelForSequenceClassification.from_pretrained("bert")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=data)
trainer.train()
frame = pd.read_csv("input/unlabelled.csv")
output = trainer.predict(frame)
pd.DataFrame(output.predictions).to_csv("submission.csv")
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
### copied_submission: imports submission
import shutil
shutil.copy("input/sample_submission.csv", "submission.csv")
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
### sample_submission_as_it_is: imports test_data submission
import pandas as pd
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
print(len(test), len(sub))
sub.to_csv("submission.csv", index=False)
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
'''
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
