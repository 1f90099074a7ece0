"""Logistic regression on all three descriptions as square roots and logarithms, mixed with a uniform guess."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sample = pd.read_csv("input/sample_submission.csv")


def features(table):
    histograms = table.filter(regex="margin|texture").to_numpy() ** 0.5
    return np.hstack([histograms, np.log(table.filter(like="shape").to_numpy() + 1e-5)])


model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=40, tol=1e-2))
model.fit(features(train), train["species"])
probability = 0.95 * model.predict_proba(features(test)) + 0.05 / 99
test = test[["id"]].join(pd.DataFrame(probability, columns=model.classes_))
test[list(sample.columns)].to_csv("submission.csv", index=False)
