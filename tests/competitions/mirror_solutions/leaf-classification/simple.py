"""Naive Bayes on the margin alone, shrunk."""

import numpy as np
import pandas as pd
from sklearn.naive_bayes import MultinomialNB


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sample = pd.read_csv("input/sample_submission.csv")
names = [f"margin{i}" for i in range(1, 65)]
model = MultinomialNB(alpha=0.1).fit(train[names] * 40, train["species"])
assert list(model.classes_) == sorted(sample.columns[1:])
probability = 0.9 * model.predict_proba(test[names] * 40) + 0.1 / 99
test = test[["id"]].join(pd.DataFrame(np.asarray(probability), columns=model.classes_))
test[list(sample.columns)].to_csv("submission.csv", index=False)
