import re
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import KFold
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack

train = pd.read_csv('input/train.csv')
test = pd.read_csv('input/test.csv')
sub = pd.read_csv('input/sample_submission.csv')

def hand_features(texts):
    feats = []
    for t in texts:
        words = t.split()
        sents = re.split(r'[.!?]+', t)
        feats.append([len(t), len(words), len(set(words)), len(sents), t.count(','), t.count('\n\n')])
    return np.log1p(np.array(feats, dtype=float))

tfidf = TfidfVectorizer(ngram_range=(1, 2), max_features=30000, sublinear_tf=True)
X = hstack([tfidf.fit_transform(train.full_text), csr_matrix(hand_features(train.full_text))]).tocsr()
X_test = hstack([tfidf.transform(test.full_text), csr_matrix(hand_features(test.full_text))]).tocsr()
y = train.score.values

oof, pred = np.zeros(len(y)), np.zeros(X_test.shape[0])
for fold, (tr, va) in enumerate(KFold(5, shuffle=True, random_state=1).split(X)):
    m = Ridge(alpha=3.0)
    m.fit(X[tr], y[tr])
    oof[va] = m.predict(X[va])
    pred += m.predict(X_test) / 5
    print(f'fold {fold}: rmse {np.sqrt(np.mean((oof[va] - y[va]) ** 2)):.4f}')

def qwk(cuts):
    return -cohen_kappa_score(y, np.digitize(oof, np.sort(cuts)) + 1, weights='quadratic')

best = minimize(qwk, [1.5, 2.5, 3.5, 4.5, 5.5], method='Nelder-Mead')
print('OOF QWK', -best.fun)

sub['score'] = np.digitize(pred, np.sort(best.x)) + 1
sub.to_csv('submission.csv', index=False)
