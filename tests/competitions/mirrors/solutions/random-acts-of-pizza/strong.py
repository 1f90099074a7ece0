"""Logistic regression on the words of the request and on the requester's account."""

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


train, test = pd.read_json("input/train.json"), pd.read_json("input/test.json")
both = pd.concat([train, test], ignore_index=True)
numeric = [name for name in test.select_dtypes("number") if "timestamp" not in name]
account = StandardScaler().fit_transform(np.log1p(both[numeric].clip(lower=0)))
length = StandardScaler().fit_transform(np.log(both[["request_text_edit_aware"]].map(lambda text: len(text.split()))))
words = TfidfVectorizer(ngram_range=(1, 2), min_df=8, binary=True, use_idf=False, norm=None)
text = words.fit_transform(both["request_text_edit_aware"]).toarray() * 0.3
X = np.hstack([account, length, text])
model = LogisticRegression(C=0.02, max_iter=500).fit(X[: len(train)], train["requester_received_pizza"].astype(int))
test["requester_received_pizza"] = model.predict_proba(X[len(train) :])[:, 1]
test[["request_id", "requester_received_pizza"]].to_csv("submission.csv", index=False)
