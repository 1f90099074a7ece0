"""The longer the request, the better."""

import pandas as pd


test = pd.read_json("input/test.json")
length = test["request_text_edit_aware"].str.len()
test["requester_received_pizza"] = length / length.max()
test[["request_id", "requester_received_pizza"]].to_csv("submission.csv", index=False)
