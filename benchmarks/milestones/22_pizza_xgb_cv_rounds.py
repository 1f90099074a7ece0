from pathlib import Path
import pandas as pd
import xgboost as xgb
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.decomposition import NMF

INPUT = Path("input")
paths = {"train": INPUT / "train.json", "test": INPUT / "test.json"}
data = {name: pd.read_json(p) for name, p in paths.items()}

y = data["train"]["requester_received_pizza"].astype(int)
cols = data["test"].select_dtypes("number").columns

# topics
tfidf = TfidfVectorizer(stop_words="english", max_features=3000)
nmf = NMF(n_components=10, random_state=0)
topics_train = nmf.fit_transform(tfidf.fit_transform(data["train"]["request_text_edit_aware"]))
topics_test = nmf.transform(tfidf.transform(data["test"]["request_text_edit_aware"]))

X = data["train"][cols].join(pd.DataFrame(topics_train).add_prefix("topic_"))
X_test = data["test"][cols].join(pd.DataFrame(topics_test).add_prefix("topic_"))

dtrain = xgb.DMatrix(X, label=y)
params = {"objective": "binary:logistic", "eta": 0.03, "max_depth": 4, "subsample": 0.8, "eval_metric": "auc"}
cv = xgb.cv(params, dtrain, num_boost_round=1000, nfold=5, early_stopping_rounds=50, stratified=True)
rounds = len(cv)
print("rounds", rounds, "auc", cv["test-auc-mean"].iloc[-1])

booster = xgb.train(params, dtrain, num_boost_round=rounds)
pred = booster.predict(xgb.DMatrix(X_test))

sub = pd.read_csv(INPUT / "sampleSubmission.csv").drop(columns="requester_received_pizza")
sub = sub.merge(pd.DataFrame({"request_id": data["test"]["request_id"], "requester_received_pizza": pred}))
sub.to_csv("submission.csv", index=False)
