"""Naive Bayes on the words."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = make_pipeline(CountVectorizer(stop_words="english"), MultinomialNB()).fit(train["text"], train["author"])
test[["EAP", "HPL", "MWS"]] = model.predict_proba(test["text"])
test[["id", "EAP", "HPL", "MWS"]].to_csv("submission.csv", index=False)
