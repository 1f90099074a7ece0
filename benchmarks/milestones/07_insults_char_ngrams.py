import pandas as pd, numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from scipy.sparse import hstack

tr = pd.read_csv("input/train.csv"); te = pd.read_csv("input/test.csv")

def clean(s):
    s = s.str.replace(r"\\n", " ", regex=True)
    s = s.str.replace(r"\\x[a-f0-9]{2}", " ", regex=True)
    return s.str.lower().str.strip('"')

word = TfidfVectorizer(ngram_range=(1, 3), min_df=2)
char = TfidfVectorizer(analyzer="char", ngram_range=(2, 6), min_df=3)
Xtr = hstack([word.fit_transform(clean(tr.Comment)), char.fit_transform(clean(tr.Comment))]).tocsr()
Xte = hstack([word.transform(clean(te.Comment)), char.transform(clean(te.Comment))]).tocsr()

lr = LogisticRegression(C=4, solver="liblinear").fit(Xtr, tr.Insult)
te["Insult"] = lr.predict_proba(Xte)[:, 1]
te[["Insult", "Date", "Comment"]].to_csv("submission.csv", index=False)
