"""Programs as small models write them, and the milestones for which a print can be placed in each."""

IMP, TR, TE, B, F, P, S = (
    "imports",
    "train_data",
    "test_data",
    "model_built",
    "model_trained",
    "predictions",
    "submission",
)
ALL = {IMP, TR, TE, B, F, P, S}

# name -> (program, milestones)
PROGRAMS: dict[str, tuple[str, set[str]]] = {}


def program(name: str, expected: set[str], source: str) -> None:
    PROGRAMS[name] = (source.lstrip("\n"), expected)


program(
    "flat",
    ALL,
    """
import pandas as pd
from sklearn.linear_model import LogisticRegression

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = LogisticRegression()
model.fit(train[["a", "b"]], train["y"])
sub = pd.DataFrame({"id": test["id"], "y": model.predict(test[["a", "b"]])})
sub.to_csv("submission.csv", index=False)
""",
)

program(
    "main_guard",
    ALL,
    '''
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
''',
)

program(
    "cross_validation",
    ALL,
    """
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold
from sklearn.linear_model import Ridge
train = pd.read_csv("input/train.csv"); test = pd.read_csv("input/test.csv")
X, y = train[["a", "b"]].values, train["y"].values
X_test = test[["a", "b"]].values
preds = np.zeros(len(test))
oof = np.zeros(len(train))
for fold, (tr, va) in enumerate(KFold(3, shuffle=True, random_state=0).split(X)):
    model = Ridge()
    model.fit(X[tr], y[tr])
    oof[va] = model.predict(X[va])
    preds += model.predict(X_test) / 3
    print("fold", fold, end=" ")
test["y"] = (preds > 0.5).astype(int)
test[["id", "y"]].to_csv("./submission.csv", index=False)
""",
)

program(
    "pipeline_and_grid_search",
    ALL,
    """
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, OneHotEncoder
from sklearn.impute import SimpleImputer
from sklearn.svm import SVC
from sklearn.model_selection import GridSearchCV
PATHS = {"train": "input/train.csv", "test": "input/test.csv"}
frames = {}
for name, path in PATHS.items():
    frames[name] = pd.read_csv(path)
train, test = frames["train"], frames["test"]
numeric = make_pipeline(SimpleImputer(), StandardScaler())
pre = ColumnTransformer([("num", numeric, ["a", "b"])])
pipe = Pipeline([("pre", pre), ("clf", SVC())])
search = GridSearchCV(pipe, {"clf__C": [0.1, 1]}, cv=2)
search.fit(train[["a", "b"]], train.y)
best = search.best_estimator_
out = test[["id"]].assign(y=best.predict(test[["a", "b"]]))
out.to_csv(path_or_buf="submission.csv", index=False)
""",
)

program(
    "fails_before_training",
    ALL,
    """
import pandas as pd
from sklearn.linear_model import LogisticRegression
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = LogisticRegression()
model.fit(train[["a", "missing"]], train["y"])
test["y"] = model.predict(test[["a", "b"]])
test[["id", "y"]].to_csv("submission.csv", index=False)
""",
)

program(
    "fails_on_second_file",
    ALL - {P},
    """
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
""",
)

program(
    "csv_module_majority",
    {IMP, TR, TE, P, S},
    """
import csv
from collections import Counter

with open("input/train.csv") as f:
    rows = list(csv.DictReader(f))
label = Counter(row["y"] for row in rows).most_common(1)[0][0]
with open("input/test.csv", newline="") as f, open("submission.csv", "w") as out:
    writer = csv.writer(out)
    writer.writerow(["id", "y"])
    for row in csv.DictReader(f):
        writer.writerow([row["id"], label])
""",
)

program(
    "own_model_numpy",
    ALL,
    """
import numpy as np

class LogReg:
    def __init__(self, lr=0.1, steps=50):
        self.lr, self.steps = lr, steps

    def fit(self, X, y):
        self.w = np.zeros(X.shape[1])
        for _ in range(self.steps):
            p = 1 / (1 + np.exp(-X @ self.w))
            self.w -= self.lr * X.T @ (p - y) / len(y)
        return self

    def predict(self, X):
        return (X @ self.w > 0).astype(int)

train = np.genfromtxt("input/train.csv", delimiter=",", skip_header=1)
test = np.loadtxt("input/test.csv", delimiter=",", skiprows=1)
model = LogReg(lr=0.2)
model.fit(train[:, 1:3], train[:, 3])
pred = model.predict(test[:, 1:3])
np.savetxt("submission.csv", np.c_[test[:, 0], pred], fmt="%d", delimiter=",", header="id,y", comments="")
""",
)

program(
    "class_with_attributes",
    ALL,
    """
import pandas as pd
from pathlib import Path
from sklearn.naive_bayes import GaussianNB


class Solution:
    folder = Path("input")

    def __init__(self, target="y"):
        self.target = target
        self.model = GaussianNB()

    def load(self):
        self.train = pd.read_csv(self.folder / "train.csv")
        self.test = pd.read_csv(self.folder / "test.csv")

    def run(self):
        self.load()
        X = self.train.drop(columns=[self.target, "id"])
        self.model.fit(X, self.train[self.target])
        return self.model.predict(self.test[X.columns])

    def save(self, preds, path="submission.csv"):
        pd.DataFrame({"id": self.test["id"], "y": preds}).to_csv(path, index=False)


solution = Solution()
solution.save(solution.run())
""",
)

program(
    "list_of_models",
    ALL,
    """
import numpy as np, pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.ensemble import GradientBoostingClassifier
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
features = ["a", "b"]
models = [("lr", LogisticRegression()), ("gb", GradientBoostingClassifier(n_estimators=5))]
preds = []
for name, m in models:
    m.fit(train[features], train["y"])
    preds.append(m.predict_proba(test[features])[:, 1])
test["y"] = (np.mean(preds, axis=0) > 0.5).astype(int)
test[["id", "y"]].to_csv("submission.csv", index=False)
""",
)

program(
    "validation_only",
    {IMP, TR, B, F},
    """
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
df = pd.read_csv("input/train.csv")
X_train, X_test, y_train, y_test = train_test_split(df[["a"]], df["y"], test_size=0.2)
clf = LogisticRegression()
clf.fit(X_train, y_train)
print(accuracy_score(y_test, clf.predict(X_test)))
""",
)

program(
    "validation_and_test_by_one_function",
    ALL,
    """
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

def predict(model, frame):
    result = model.predict_proba(frame[["a", "b"]])[:, 1]
    return result

def build():
    return LogisticRegression(C=0.5)

train = pd.read_csv("input/train.csv")
tr, va = train_test_split(train)
model = build()
model.fit(tr[["a", "b"]], tr["y"])
va_pred = predict(model, va)
test = pd.read_csv("input/test.csv")
pred = predict(model, test)
pd.DataFrame({"id": test["id"], "y": pred}).to_csv("submission.csv", index=False)
""",
)

program(
    "lightgbm_train",
    ALL,
    """
import lightgbm as lgb
import pandas as pd
train = pd.read_csv("/kaggle/input/train.csv")
test = pd.read_csv("/kaggle/input/test.csv")
params = {"objective": "binary", "verbose": -1}
booster = lgb.train(params, lgb.Dataset(train.drop("y", axis=1), label=train["y"]), num_boost_round=100)
test["y"] = booster.predict(test)
test[["id", "y"]].to_csv("submission.csv", index=False)
""",
)

program(
    "lightgbm_optional",
    ALL,
    """
try:
    import lightgbm as lgb
except ImportError:
    lgb = None
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

train = pd.read_csv("train.csv")
test = pd.read_csv("test.csv")
if lgb is not None:
    model = lgb.LGBMClassifier(n_estimators=50)
else:
    model = HistGradientBoostingClassifier()
model.fit(train[["a"]], train["y"])
pred = model.predict_proba(test[["a"]])
pd.DataFrame(pred).to_csv(f"submission.csv")
""",
)

program(
    "xgboost_native",
    ALL,
    """
import pandas as pd
import xgboost as xgb
base = "./input"
train = pd.read_csv(base + "/train.csv")
test = pd.read_csv("%s/test.csv" % base)
dtrain = xgb.DMatrix(train[["a"]], label=train["y"])
dtest = xgb.DMatrix(test[["a"]])
bst = xgb.train({"max_depth": 3}, dtrain, 20)
preds = bst.predict(dtest)
out = "submission" + ".csv"
pd.DataFrame({"id": test.id, "y": preds}).to_csv(out, index=False)
""",
)

program(
    "catboost",
    ALL,
    """
import pandas as pd
from catboost import CatBoostRegressor, Pool
train, test = pd.read_parquet("input/train.parquet"), pd.read_parquet("input/test.parquet")
model = CatBoostRegressor(
    iterations=100,  # few
    verbose=0,
)
model.fit(
    Pool(train[["a"]], train["y"]),
)
test["y"] = model.predict(Pool(test[["a"]]))
with open("submission.csv", "w") as f:
    test.to_csv(f, index=False)
""",
)

TORCH = """
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
"""

program(
    "torch_loop",
    ALL,
    TORCH
    + """
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
""",
)

program(
    "torch_functions",
    ALL,
    TORCH
    + """
def train_epoch(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if i % 2 == 0:
            optimizer.step()


@torch.no_grad()
def infer(model, loader):
    model.eval()
    outputs = []
    for (x,) in loader:
        outputs.append(model(x))
    return torch.cat(outputs).numpy()


def main():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.tensor(train[["a", "b"]].values)), batch_size=8)
    for epoch in range(2):
        train_epoch(model, loader, optimizer, nn.BCEWithLogitsLoss())
    val = infer(model, loader)
    test_loader = DataLoader(TensorDataset(torch.tensor(test[["a", "b"]].values)), batch_size=8)
    preds = infer(model, test_loader)
    pd.DataFrame({"id": test["id"], "y": preds}).to_csv("submission.csv", index=False)


main()
""",
)

program(
    "torch_no_training",
    {IMP, TR, TE, B},
    TORCH
    + """
class FocalLoss(nn.Module):
    def forward(self, x, y):
        return x

model = Net()
criterion = FocalLoss()
loss = criterion(model(torch.tensor(train[["a", "b"]].values)), 0)
""",
)

program(
    "keras",
    ALL,
    """
import pandas as pd
from tensorflow import keras
from tensorflow.keras import layers
X = pd.read_csv("input/train.csv").drop(columns="y")
y = pd.read_csv("input/train.csv")["y"]
X_test = pd.read_csv("input/test.csv")
model = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(X, y, epochs=2, verbose=0)
sub = pd.DataFrame({"id": X_test.id, "y": model.predict(X_test).ravel()})
sub.to_csv("submission.csv", index=False)
""",
)

program(
    "hf_trainer",
    ALL - {TE},
    """
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
""",
)

program(
    "json_lines",
    ALL,
    """
import json
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

with open("input/train.json") as f:
    train = json.load(f)
test = [json.loads(line) for line in open("input/test.jsonl")]
vec = TfidfVectorizer()
X = vec.fit_transform([r["text"] for r in train])
clf = LogisticRegression().fit(X, [r["y"] for r in train])
preds = clf.predict_proba(vec.transform([r["text"] for r in test]))[:, 1]
f = open("submission.csv", "w")
f.write("id,y\\n")
for r, p in zip(test, preds):
    f.write(f"{r['id']},{p}\\n")
f.close()
""",
)

program(
    "transformers_only",
    {IMP, TR, TE},
    """
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
""",
)

program(
    "comprehension_of_files",
    {IMP, TR, TE, P, S},
    """
import pandas as pd
data = {name: pd.read_csv(f"input/{name}.csv") for name in ["train", "test"]}
sub = data["test"][["id"]].copy()
sub["y"] = data["train"]["y"].mean()
sub.to_csv("submission.csv", index=False)
""",
)

program(
    "copied_submission",
    {IMP, S},
    """
import shutil
shutil.copy("input/sample_submission.csv", "submission.csv")
""",
)

program(
    "sample_submission_only",
    {IMP},
    """
import pandas as pd
test = pd.read_csv("input/sample_submission.csv")
test.to_csv("output.csv")
""",
)

program(
    "imports_in_function",
    {IMP, TR},
    """
def main():
    import numpy as np
    import pandas as pd
    train = pd.read_csv("input/train.csv")
    print(np.mean(train["y"]))

main()
""",
)

program(
    "no_imports",
    {TR, TE, S},
    """
train = open("input/train.csv").read().split("\\n")
test = open("input/test.csv").readlines()
with open("submission.csv", "w") as out:
    for line in test: out.write(line)
""",
)

program(
    "never_called",
    {IMP},
    """
import pandas as pd
from sklearn.svm import SVC

def main():
    train = pd.read_csv("input/train.csv")
    SVC().fit(train[["a"]], train["y"])
""",
)

program(
    "conditional_read",
    {IMP},
    """
import os
import pandas as pd
def load(path):
    if os.path.exists(path):
        return pd.read_csv(path)
    return None
train = load("input/train.csv")
test = load("input/test.csv")
""",
)

program(
    "one_line_if",
    {IMP, TR, B},
    """
import pandas as pd
from sklearn.svm import SVC
train = pd.read_csv("input/train.csv")
model = SVC()
if len(train) > 10**9: model.fit(train[["a"]], train["y"])
""",
)

program(
    "images",
    {IMP, TR, TE, B, F, P},
    """
import glob
import numpy as np
from PIL import Image
from sklearn.ensemble import ExtraTreesClassifier

def features(path):
    return np.asarray(Image.open(path).resize((8, 8))).ravel()

X_train = np.array([features(p) for p in sorted(glob.glob("input/train/*.png"))])
X_test = np.array([features(p) for p in sorted(glob.glob("input/test/*.png"))])
y = np.load("labels.npy")
model = ExtraTreesClassifier()
model.fit(X_train, y)
predictions = model.predict(X_test)
np.savetxt("out/result.csv", predictions)
""",
)

program(
    "partial_fit",
    ALL,
    """
import pandas as pd
from sklearn.linear_model import SGDClassifier
test = pd.read_csv("input/test.csv")
clf = SGDClassifier()
for chunk in pd.read_csv("input/train.csv", chunksize=100):
    clf.partial_fit(chunk[["a"]], chunk["y"], classes=[0, 1])
test["y"] = clf.decision_function(test[["a"]])
test.to_csv("submission.csv")
""",
)

program(
    "stacking_with_tuple_return",
    ALL,
    """
import pandas as pd
from sklearn.ensemble import StackingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

def prepare():
    train = pd.read_csv("../input/comp/train.csv")
    test = pd.read_csv("../input/comp/test.csv")
    combined = pd.get_dummies(pd.concat([train, test]))
    return combined[: len(train)], combined[len(train) :], train["y"]

def fit_model(X, y):
    base = [("rf", RandomForestClassifier()), ("lr", LogisticRegression())]
    return StackingClassifier(base).fit(X, y)

X, X_test, y = prepare()
model = fit_model(X, y)
proba = model.predict_proba(X_test)
pd.DataFrame(proba).to_csv("/kaggle/working/submission.csv", index=False)
""",
)

program(
    "swallowed_failure",
    {IMP, TR, TE, B, F},
    """
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
""",
)

program(
    "behind_an_exit",
    {IMP, TR},
    """
import sys
import pandas as pd
train = pd.read_csv("train.csv")
sys.exit("enough")
test = pd.read_csv("test.csv")
test.to_csv("submission.csv")
""",
)

program(
    "switched_off",
    {IMP, TE, P, S},
    """
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
    if not USE_MODEL:
        test["y"] = test["a"] * 2
    if LATER:
        test.to_csv("submission.csv")
main()
""",
)

program(
    "sample_submission_as_it_is",
    {IMP, TE, S},
    """
import pandas as pd
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
print(len(test), len(sub))
sub.to_csv("submission.csv", index=False)
""",
)

program(
    "rows_of_the_sample_submission",
    {IMP, TE, S},
    """
import pandas as pd
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
sub = sub[sub.id.isin(test.id)]
sub.to_csv("submission.csv", index=False)
""",
)

program(
    "rules_row_by_row",
    {IMP, TE, P, S},
    """
import csv
def answers(path):
    with open(path) as f:
        yield from csv.DictReader(f)
def main(out):
    with open(out, "w") as target:
        for row in answers("input/test.csv"):
            target.write(row["id"] + "," + str(len(row["text"])))
main("submission.csv")
""",
)

program(
    "scaled_in_a_loop_and_never_trained",
    {IMP, TR},
    """
import pandas as pd
train = pd.read_csv("train.csv")
for column in ["a", "b"]:
    train[column] -= 2 * train[column].mean()
header = open("test.csv").readline()
""",
)

program(
    "everything_imported",
    {IMP, TR, B, F},
    """
from pandas import *
from sklearn.ensemble import *
from os.path import *
frame = read_csv("train.csv")
model = RandomForestClassifier()
model.fit(frame, frame["y"])
""",
)

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
    "comment": "# nothing\n",
}
