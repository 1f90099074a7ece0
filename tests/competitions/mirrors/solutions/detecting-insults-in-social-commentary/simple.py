"""Naive Bayes on the words."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(train["Comment"], train["Insult"])
test["Insult"] = model.predict_proba(test["Comment"])[:, 1]
test[["Insult", "Comment"]].to_csv("submission.csv", index=False)
