"""Logistic regression on sequences of words and of characters, in lower case and without digits for letters."""

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union


def clean(text):
    return text.lower().replace("0", "o").replace("1", "i").replace("\\n", " ")


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = make_pipeline(
    make_union(
        TfidfVectorizer(ngram_range=(1, 4), token_pattern=r"[\w']+|[.!?]", sublinear_tf=True, min_df=2),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, min_df=3),
    ),
    LogisticRegression(C=10, max_iter=300),
)
model.fit(train["Comment"].map(clean), train["Insult"])
test["Insult"] = model.predict_proba(test["Comment"].map(clean))[:, 1]
test[["Insult", "Comment"]].to_csv("submission.csv", index=False)
