"""How many sentences of each answer are about the question, length, lists, refusals; the lead makes the odds."""

import json
import re

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
winners = ["winner_model_a", "winner_model_b", "winner_tie"]


def words(text):
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def quality(prompt, responses):
    question, found = words(" ".join(json.loads(prompt))), []
    for response in json.loads(responses):
        sentences = [part for part in re.split(r"[.\n]+", response) if part.strip()]
        topical = sum(len(words(part) & question) > 0 for part in sentences)
        refused = bool(re.search(r"sorry|unable|language model", response))
        found.append([topical, len(sentences) - topical, refused, "- " in response, len(response) / 100])
    return np.mean(found, axis=0)


def features(table):
    a = np.array([quality(p, r) for p, r in zip(table["prompt"], table["response_a"], strict=True)])
    b = np.array([quality(p, r) for p, r in zip(table["prompt"], table["response_b"], strict=True)])
    return a - b


X, y = features(train), train[winners].to_numpy().argmax(axis=1)
# Twice the data: what holds for a and b holds for b and a.
X2, y2 = np.vstack([X, -X]), np.concatenate([y, np.array([1, 0, 2])[y]])
lead = LogisticRegression(C=0.5).fit(X2[y2 < 2], y2[y2 < 2])


def odds(X):
    score = lead.decision_function(X)
    return np.column_stack([score, np.abs(score)])


model = LogisticRegression().fit(odds(X2), y2)
test[winners] = model.predict_proba(odds(features(test)))
test[["id", *winners]].to_csv("submission.csv", index=False)
