import pandas as pd
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.ensemble import RandomForestClassifier, AdaBoostClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

train = pd.read_csv("input/train.csv")
X = StandardScaler().fit_transform(train.drop(columns=["id", "species"]))
y, names = pd.factorize(train["species"], sort=True)

sss = StratifiedShuffleSplit(n_splits=1, test_size=0.2, random_state=23)
tr, va = next(sss.split(X, y))

classifiers = [
    KNeighborsClassifier(3),
    SVC(kernel="rbf", C=10, probability=True),
    RandomForestClassifier(n_estimators=200),
    AdaBoostClassifier(),
    GaussianNB(),
    LogisticRegression(C=1000, max_iter=2000),
]

log = []
for clf in classifiers:
    clf.fit(X[tr], y[tr])
    name = clf.__class__.__name__
    p = clf.predict_proba(X[va])
    acc, ll = accuracy_score(y[va], p.argmax(1)), log_loss(y[va], p, labels=np.arange(len(names)))
    print(f"{name:>28}  accuracy {acc:.4f}  log loss {ll:.4f}")
    log.append((name, acc, ll))

log = pd.DataFrame(log, columns=["classifier", "accuracy", "log_loss"]).sort_values("log_loss")
print(log)
log.to_csv("comparison.csv", index=False)
