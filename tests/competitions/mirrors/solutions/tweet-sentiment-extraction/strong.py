"""Learn which words are marked, given the neighbours; predict the run of words that is most likely the marked one."""

import numpy as np
import pandas as pd
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


def features(text, sentiment):
    words = ["", *(word.strip(".,!?:()").lower() for word in text.split()), ""]
    return [
        {
            f"{sentiment} {words[i]}": 1,
            f"{sentiment} before {words[i - 1]}": 1,
            f"{sentiment} after {words[i + 1]}": 1,
            f"{sentiment} {words[i - 1]} {words[i]}": 1,
            f"{sentiment} {words[i]} {words[i + 1]}": 1,
        }
        for i in range(1, len(words) - 1)
    ]


def best_run(logits):
    sums = np.concatenate([[0], np.cumsum(logits)])
    runs = [(sums[end] - sums[start], start, end) for end in range(1, len(sums)) for start in range(end)]
    return max(runs)[1:]


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
X, y = [], []
for row in train[train["sentiment"] != "neutral"].itertuples():
    start = len(row.text[: row.text.find(row.selected_text)].split())
    marked = range(start, start + len(row.selected_text.split()))
    X += features(row.text, row.sentiment)
    y += [i in marked for i in range(len(row.text.split()))]
model = make_pipeline(DictVectorizer(), LogisticRegression(C=3, max_iter=300)).fit(X, y)
selected = []
for row in test.itertuples():
    words = row.text.split()
    start, end = 0, len(words)
    if row.sentiment != "neutral":
        start, end = best_run(model.decision_function(features(row.text, row.sentiment)))
    selected.append(" ".join(words[start:end]))
test.assign(selected_text=selected)[["textID", "selected_text"]].to_csv("submission.csv", index=False)
