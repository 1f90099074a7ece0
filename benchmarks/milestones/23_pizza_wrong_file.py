"""Random Acts of Pizza - gradient boosting on meta data."""
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.metrics import roc_auc_score

train = pd.read_json("input/train.json")
test = pd.read_json("input/test.json")

features = list(set(train.columns) & set(test.select_dtypes(include=["int64", "float64"]).columns))
X, y = train[features], train["requester_received_pizza"]

gbm = HistGradientBoostingClassifier(max_iter=200, learning_rate=0.05)
oof = cross_val_predict(gbm, X, y, cv=5, method="predict_proba")[:, 1]
print("oof auc", roc_auc_score(y, oof))
pd.DataFrame({"request_id": train["request_id"], "oof": oof}).to_csv("oof.csv", index=False)

gbm.fit(X, y)
p = gbm.predict_proba(test[features])[:, 1]
pd.DataFrame({"request_id": test["request_id"], "pred": p}).to_csv("test_predictions.csv", index=False)
print("TODO: rename column and write the submission")
