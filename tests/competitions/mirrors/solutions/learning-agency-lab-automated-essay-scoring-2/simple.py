"""A line through the length."""

import numpy as np
import pandas as pd


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
slope, intercept = np.polyfit(train["full_text"].str.len(), train["score"], 1)
test["score"] = (intercept + slope * test["full_text"].str.len()).round().clip(1, 6).astype(int)
test[["essay_id", "score"]].to_csv("submission.csv", index=False)
