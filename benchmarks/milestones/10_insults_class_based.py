import os

import joblib
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split


class InsultDetector:
    """Small wrapper around a tf-idf + SGD model."""

    def __init__(self, input_dir="input"):
        self.input_dir = input_dir
        self.vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))
        self.model = SGDClassifier(loss="log_loss", alpha=1e-5, random_state=7)

    def load(self):
        self.train_df = pd.read_csv(os.path.join(self.input_dir, "train.csv"))
        self.test_df = pd.read_csv(os.path.join(self.input_dir, "test.csv"))

    def train(self):
        x_tr, x_va, y_tr, y_va = train_test_split(
            self.train_df["Comment"], self.train_df["Insult"], test_size=0.15, random_state=7
        )
        self.model.fit(self.vectorizer.fit_transform(x_tr), y_tr)
        auc = roc_auc_score(y_va, self.model.predict_proba(self.vectorizer.transform(x_va))[:, 1])
        print(f"validation AUC: {auc:.4f}")
        joblib.dump(self.model, "model.joblib")

    def submit(self, path="submission.csv"):
        self.test_df["Insult"] = self.model.predict_proba(
            self.vectorizer.transform(self.test_df["Comment"])
        )[:, 1]
        self.test_df[["Insult", "Date", "Comment"]].to_csv(path, index=False)


detector = InsultDetector()
detector.load()
detector.train()
detector.submit()
