from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline


@dataclass
class Tagger:
    threshold: float = 0.45
    clf: object = field(
        default_factory=lambda: make_pipeline(DictVectorizer(), SGDClassifier(loss="log_loss", alpha=1e-6))
    )

    @staticmethod
    def features(words: list[str], i: int, sentiment: str) -> dict[str, object]:
        w = words[i].lower()
        return {
            "w+s": w + "|" + sentiment,
            "prev": words[i - 1].lower() if i else "<s>",
            "next": words[i + 1].lower() if i + 1 < len(words) else "</s>",
            "pos": i / len(words),
            "stars": "*" in w,
        }

    def fit(self, df: pd.DataFrame) -> Tagger:
        X, y = [], []
        for text, sel, sentiment in zip(df.text, df.selected_text, df.sentiment):
            words, chosen = text.split(), set(sel.split())
            for i in range(len(words)):
                X.append(self.features(words, i, sentiment))
                y.append(int(words[i] in chosen))
        self.clf.fit(X, y)
        return self

    def select(self, text: str, sentiment: str) -> str:
        words = text.split()
        if sentiment == "neutral" or not words:
            return text
        probs = self.clf.predict_proba([self.features(words, i, sentiment) for i in range(len(words))])[:, 1]
        hits = [i for i, p in enumerate(probs) if p > self.threshold]
        return " ".join(words[hits[0] : hits[-1] + 1]) if hits else text


train = pd.read_csv("input/train.csv").dropna(subset=["text"])
tagger = Tagger().fit(train)
test = pd.read_csv("input/test.csv").fillna("")
test["selected_text"] = [tagger.select(t, s) for t, s in zip(test.text, test.sentiment)]
test.to_csv("submission.csv", columns=["textID", "selected_text"], index=False)
