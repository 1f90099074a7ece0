"""The five nearest neighbors by margin, mixed with a uniform guess."""

import pandas as pd
from sklearn.neighbors import KNeighborsClassifier


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sample = pd.read_csv("input/sample_submission.csv")
names = [f"margin{i}" for i in range(1, 65)]
model = KNeighborsClassifier(5).fit(train[names], train["species"])
probability = 0.7 * model.predict_proba(test[names]) + 0.3 / 99
test = test[["id"]].join(pd.DataFrame(probability, columns=model.classes_))
test[list(sample.columns)].to_csv("submission.csv", index=False)
