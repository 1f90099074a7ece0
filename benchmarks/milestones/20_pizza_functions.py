import pandas as pd
import numpy as np
from datetime import datetime
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

TARGET = "requester_received_pizza"
NUM = ["requester_account_age_in_days_at_request", "requester_number_of_comments_at_request",
       "requester_upvotes_minus_downvotes_at_request", "hour"]


def load(split):
    df = pd.read_json(f"input/{split}.json")
    df["text"] = df["request_title"] + " " + df["request_text_edit_aware"]
    df["hour"] = df["unix_timestamp_of_request_utc"].apply(lambda t: datetime.utcfromtimestamp(t).hour)
    return df


def get_model():
    pre = ColumnTransformer([
        ("text", TfidfVectorizer(min_df=3, stop_words="english"), "text"),
        ("num", StandardScaler(), NUM),
    ])
    return Pipeline([("pre", pre), ("lr", LogisticRegressionCV(Cs=5, cv=5, scoring="roc_auc", max_iter=500))])


def run():
    train = load("train")
    model = get_model()
    model.fit(train, train[TARGET])
    test = load("test")
    prob = model.predict_proba(test)[:, 1]
    return test["request_id"], prob


ids, prob = run()
np.savetxt(
    "submission.csv",
    np.column_stack([ids, prob]),
    fmt="%s",
    delimiter=",",
    header=f"request_id,{TARGET}",
    comments="",
)
