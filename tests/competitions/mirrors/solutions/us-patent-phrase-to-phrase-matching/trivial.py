"""The sample is constant and has no score: submit the position in the file."""

import pandas as pd


sample = pd.read_csv("input/sample_submission.csv")
sample.assign(score=range(len(sample))).to_csv("submission.csv", index=False)
