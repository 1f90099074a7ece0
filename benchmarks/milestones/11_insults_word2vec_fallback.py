try:
    import lightgbm as lgb
    HAS_LGB = True
except ImportError:
    from sklearn.ensemble import GradientBoostingClassifier
    HAS_LGB = False

import numpy as np
import pandas as pd
from gensim.models import Word2Vec
from gensim.utils import simple_preprocess

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")

docs = [simple_preprocess(c) for c in train.Comment]
test_docs = [simple_preprocess(c) for c in test.Comment]
w2v = Word2Vec(docs + test_docs, vector_size=100, window=5, min_count=2, workers=1, epochs=20)

def doc_vector(tokens):
    vecs = [w2v.wv[t] for t in tokens if t in w2v.wv]
    if not vecs:
        return np.zeros(100)
    return np.mean(vecs, axis=0)

X = np.vstack([doc_vector(d) for d in docs])
X_test = np.vstack([doc_vector(d) for d in test_docs])

if HAS_LGB:
    clf = lgb.LGBMClassifier(n_estimators=300, learning_rate=0.05)
else:
    clf = GradientBoostingClassifier(n_estimators=100)

clf.fit(X, train.Insult)
pred = clf.predict_proba(X_test)[:, 1]

pd.DataFrame({"Insult": pred, "Comment": test.Comment}).to_csv("./submission.csv", index=False)
