"""The whole text."""

import pandas as pd


test = pd.read_csv("input/test.csv")
test["selected_text"] = test["text"].str.strip()
test[["textID", "selected_text"]].to_csv("submission.csv", index=False)
