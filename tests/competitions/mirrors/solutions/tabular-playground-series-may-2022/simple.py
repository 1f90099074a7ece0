"""Logistic regression on the numbers."""

import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
names = [name for name in test if name not in ("id", "f_27")]
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[names], train["target"])
test["target"] = model.predict_proba(test[names])[:, 1]
test[["id", "target"]].to_csv("submission.csv", index=False)
