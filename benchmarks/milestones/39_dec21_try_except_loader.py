import os, gc, warnings
warnings.filterwarnings('ignore')
import pandas as pd
import numpy as np
from sklearn.tree import DecisionTreeClassifier
from sklearn.ensemble import BaggingClassifier
from sklearn.metrics import accuracy_score

def reduce_mem(df):
    for c in df.select_dtypes('int64'):
        df[c] = pd.to_numeric(df[c], downcast='integer')
    return df

try:
    train = reduce_mem(pd.read_csv('input/train.csv'))
    test = reduce_mem(pd.read_csv('input/test.csv'))
except FileNotFoundError:
    # on Kaggle
    train = reduce_mem(pd.read_csv('/kaggle/input/tabular-playground-series-dec-2021/train.csv'))
    test = reduce_mem(pd.read_csv('/kaggle/input/tabular-playground-series-dec-2021/test.csv'))

print('Loaded', train.shape, test.shape)
y = train['Cover_Type']
X = train.drop(columns=['Id', 'Cover_Type'])
mask = np.random.rand(len(X)) < 0.9

bag = BaggingClassifier(DecisionTreeClassifier(max_depth=25), n_estimators=30, max_samples=0.5, n_jobs=-1)
bag.fit(X[mask], y[mask])
print('acc', accuracy_score(y[~mask], bag.predict(X[~mask])))
del X; gc.collect()

test_pred = bag.predict(test.drop(columns=['Id']))
submission = pd.read_csv('input/sample_submission.csv')
submission['Cover_Type'] = test_pred
submission.to_csv('submission.csv', index=False)
assert os.path.exists('submission.csv')
