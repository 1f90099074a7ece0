import gc
import pandas as pd
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer
import xgboost as xgb

# ====================================================
# Config
# ====================================================
class CFG:
    seed = 42
    n_folds = 4
    target = ['winner_model_a', 'winner_model_b', 'winner_tie']
    params = dict(objective='multi:softprob', num_class=3, eta=0.05, max_depth=6, subsample=0.7, colsample_bytree=0.3)

# ====================================================
# Data
# ====================================================
def get_data():
    dfs = []
    for part in ['train', 'test']:
        df = pd.read_csv(f'input/{part}.csv')
        df[['prompt', 'response_a', 'response_b']] = df[['prompt', 'response_a', 'response_b']].astype(str)
        dfs.append(df)
    return dfs

def to_matrix(df):
    hv = HashingVectorizer(n_features=2**14, alternate_sign=False)
    A, B = hv.transform(df.response_a), hv.transform(df.response_b)
    lens = np.c_[df.response_a.str.len(), df.response_b.str.len(), df.prompt.str.len()]
    return sp.hstack([A - B, sp.csr_matrix(lens)]).tocsr()

# ====================================================
# Train
# ====================================================
def fit_predict(X, y, X_test):
    rng = np.random.RandomState(CFG.seed)
    fold_of = rng.randint(CFG.n_folds, size=len(y))
    total = np.zeros((X_test.shape[0], 3))
    for k in range(CFG.n_folds):
        dtr = xgb.DMatrix(X[fold_of != k], y[fold_of != k])
        dva = xgb.DMatrix(X[fold_of == k], y[fold_of == k])
        booster = xgb.train(CFG.params, dtr, 1000, [(dva, 'valid')], early_stopping_rounds=30, verbose_eval=100)
        total += booster.predict(xgb.DMatrix(X_test), iteration_range=(0, booster.best_iteration + 1))
        del dtr, dva, booster; gc.collect()
    return total / CFG.n_folds

if __name__ == '__main__':
    train, test = get_data()
    y = train[CFG.target].values.argmax(axis=1)
    preds = fit_predict(to_matrix(train), y, to_matrix(test))
    preds /= preds.sum(axis=1, keepdims=True)
    sub = test[['id']].copy()
    sub[CFG.target] = preds
    sub.to_csv('submission.csv', index=False)
