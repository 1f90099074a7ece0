from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, early_stopping
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split


class Arena:
    """Everything about the competition; each table is read on first use."""

    targets = ["winner_model_a", "winner_model_b", "winner_tie"]

    def __init__(self, root: Path):
        self.root = root

    @cached_property
    def train(self) -> pd.DataFrame:
        return pd.read_csv(self.root / "train.csv")

    @cached_property
    def test(self) -> pd.DataFrame:
        return pd.read_csv(self.root / "test.csv")

    def embed(self, df: pd.DataFrame, fit: bool = False) -> np.ndarray:
        text = pd.concat([df["response_a"], df["response_b"]])
        if fit:
            self.tfidf = TfidfVectorizer(max_features=20000, min_df=3)
            self.svd = TruncatedSVD(64, random_state=0)
            z = self.svd.fit_transform(self.tfidf.fit_transform(text))
        else:
            z = self.svd.transform(self.tfidf.transform(text))
        a, b = z[: len(df)], z[len(df) :]
        lengths = np.log1p(np.c_[df["response_a"].str.len(), df["response_b"].str.len()])
        return np.hstack([a - b, np.abs(a - b), lengths, lengths[:, :1] - lengths[:, 1:]])


arena = Arena(Path("input"))
X = arena.embed(arena.train, fit=True)
y = arena.train[arena.targets].to_numpy().argmax(axis=1)
X_tr, X_va, y_tr, y_va = train_test_split(X, y, test_size=0.1, stratify=y, random_state=0)

gbm = LGBMClassifier(n_estimators=2000, learning_rate=0.03, colsample_bytree=0.5, verbose=-1)
gbm.fit(X_tr, y_tr, eval_set=[(X_va, y_va)], callbacks=[early_stopping(50)])

proba = gbm.predict_proba(arena.embed(arena.test))
sub = pd.DataFrame(proba, columns=arena.targets, index=arena.test["id"])
sub.to_csv("submission.csv")
