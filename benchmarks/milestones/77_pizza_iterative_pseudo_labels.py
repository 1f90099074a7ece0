import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer

train, test = (pd.read_json(f"input/{n}.json") for n in ["train", "test"])
cols = [c for c in test.columns if c.endswith("_at_request") and test[c].dtype != object]
imp = SimpleImputer(strategy="median")
X, Xt = imp.fit_transform(train[cols]), imp.transform(test[cols])
y = train["requester_received_pizza"].to_numpy(int)

clf = GradientBoostingClassifier(subsample=0.8, random_state=0)
# first pass: labelled rows only
clf.fit(X, y)
p = clf.predict_proba(Xt)[:, 1]

# second pass: add the test rows we are sure of
sure = (p < np.quantile(p, 0.2)) | (p > np.quantile(p, 0.95))
clf.fit(np.vstack([X, Xt[sure]]), np.r_[y, (p[sure] > 0.5).astype(int)])
p = 0.5 * p + 0.5 * clf.predict_proba(Xt)[:, 1]

test["requester_received_pizza"] = p
test.to_csv("submission.csv", columns=["request_id", "requester_received_pizza"], index=False)
