import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted, check_X_y


class ParzenClassifier(BaseEstimator, ClassifierMixin):
    """Gaussian kernel around every training leaf."""

    def __init__(self, bandwidth=1.0):
        self.bandwidth = bandwidth

    def fit(self, X, y):
        X, y = check_X_y(X, y)
        self.mean_, self.scale_ = X.mean(0), X.std(0) + 1e-9
        self.X_ = (X - self.mean_) / self.scale_
        self.classes_, self.y_ = np.unique(y, return_inverse=True)
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        Z = (X - self.mean_) / self.scale_
        d = ((Z[:, None, :] - self.X_[None]) ** 2).sum(-1)
        k = np.exp(-(d - d.min(1, keepdims=True)) / (2 * self.bandwidth**2))
        p = k @ np.eye(len(self.classes_))[self.y_] + 1e-6
        return p / p.sum(1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


def main():
    train = pd.read_csv("input/train.csv", index_col="id")
    test = pd.read_csv("input/test.csv", index_col="id")
    species = train.pop("species")

    search = GridSearchCV(
        ParzenClassifier(),
        {"bandwidth": [0.5, 1, 2, 4]},
        scoring="neg_log_loss",
        cv=5,
    ).fit(train.values, species)
    print("bandwidth", search.best_params_["bandwidth"])

    proba = pd.DataFrame(search.predict_proba(test.values), index=test.index, columns=search.classes_)
    proba.to_csv("submission.csv")
    return 0


raise SystemExit(main())
