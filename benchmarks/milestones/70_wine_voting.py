import pandas as pd
from sklearn.ensemble import VotingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import make_pipeline
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score


def read(name, **kwargs):
    return pd.read_csv(f"input/{name}.csv", index_col="id", **kwargs)


wine = read("train")
X, y = wine.drop(columns="cultivar"), wine["cultivar"]
estimators = [
    ("lr", make_pipeline(StandardScaler(), LogisticRegression(C=0.5))),
    ("knn", make_pipeline(StandardScaler(), KNeighborsClassifier(9))),
    ("rf", RandomForestClassifier(300, random_state=0)),
]
vote = VotingClassifier(estimators, voting="soft")

for name, est in estimators + [("vote", vote)]:
    s = cross_val_score(est, X, y, cv=RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0))
    print(f"{name:5s} {s.mean():.3f} +- {s.std():.3f}")

vote.fit(X, y)
answer = pd.Series(vote.predict(read("test")), index=read("test").index, name="cultivar")
answer.to_csv("submission.csv")
