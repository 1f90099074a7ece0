"""Logistic regression on length and punctuation."""

import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def features(table):
    counts = [table["text"].str.count(mark) for mark in (r"\w+", ",", ";", ":", "--", "!", '"', "the", "I ")]
    return pd.concat(counts, axis=1).to_numpy()


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(features(train), train["author"])
test[["EAP", "HPL", "MWS"]] = model.predict_proba(features(test))
test[["id", "EAP", "HPL", "MWS"]].to_csv("submission.csv", index=False)
