"""The share of words that the two phrases have in common."""

import pandas as pd


test = pd.read_csv("input/test.csv")
words = [(set(a.split()), set(b.split())) for a, b in zip(test["anchor"], test["target"], strict=True)]
test["score"] = [len(a & b) / len(a | b) for a, b in words]
test[["id", "score"]].to_csv("submission.csv", index=False)
