import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import ExtraTreesClassifier

SEEDS = range(4)
N_ROWS = 200_000


def features(df):
    out = df.drop(columns=["f_27", "target", "id"], errors="ignore")
    for i in range(10):
        out[f"letter_{i}"] = df["f_27"].str[i].map(ord)
    return out


def fit_one(seed, X, y):
    return ExtraTreesClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed).fit(X, y)


train_df = pd.read_csv("input/train.csv", nrows=N_ROWS)
X, y = features(train_df), train_df["target"]

models = Parallel(n_jobs=2)(delayed(fit_one)(seed, X, y) for seed in SEEDS)

chunks = []
for chunk in pd.read_csv("input/test.csv", chunksize=50_000):
    p = np.mean([m.predict_proba(features(chunk))[:, 1] for m in models], axis=0)
    chunks.append(pd.DataFrame({"id": chunk["id"], "target": p}))

pd.concat(chunks).to_csv("submission.csv", index=False)
