import json
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import make_pipeline
from sklearn.metrics import log_loss

def text_of(cell):
    try:
        return " ".join(t or "" for t in json.loads(cell))
    except (ValueError, TypeError):
        return str(cell)

def features(df):
    out = pd.DataFrame()
    for side in "ab":
        t = df[f"response_{side}"].map(text_of)
        out[f"len_{side}"] = np.log1p(t.str.len())
        out[f"lines_{side}"] = t.str.count("\n")
        out[f"lists_{side}"] = t.str.count(r"\n[-*\d]")
        out[f"sorry_{side}"] = t.str.contains("sorry|I cannot", case=False).astype(int)
    for name in ("len", "lines", "lists", "sorry"):
        out[f"d_{name}"] = out[f"{name}_a"] - out[f"{name}_b"]
    out["p_len"] = np.log1p(df["prompt"].str.len())
    return out

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")

TARGETS = ["winner_model_a", "winner_model_b", "winner_tie"]
y = train[TARGETS].values.argmax(1)
X, X_test = features(train), features(test)

pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
oof = cross_val_predict(pipeline, X, y, cv=StratifiedKFold(5), method="predict_proba")
print("oof log loss", log_loss(y, oof))
pipeline.fit(X, y)

sub = pd.DataFrame(pipeline.predict_proba(X_test), columns=TARGETS)
sub.insert(0, "id", test["id"])
sub.to_csv("submission.csv", index=False)
