import numpy as np
import pandas as pd
import lightgbm as lgb
from sklearn.model_selection import KFold

train = pd.read_csv('input/train.csv')
test = pd.read_csv('input/test.csv')
targets = ['formation_energy_ev_natom', 'bandgap_energy_ev']

def vol(df):
    a, b, g = [np.cos(np.radians(df[f'lattice_angle_{x}_degree'])) for x in ('alpha', 'beta', 'gamma')]
    l = df.lattice_vector_1_ang * df.lattice_vector_2_ang * df.lattice_vector_3_ang
    return l * np.sqrt(1 - a**2 - b**2 - g**2 + 2 * a * b * g)

for df in (train, test):
    df['volume'] = vol(df)
    df['density'] = df.number_of_total_atoms / df.volume

features = [c for c in test.columns if c != 'id']
sub = pd.DataFrame({'id': test.id})

for t in targets:
    y = np.log1p(train[t])
    params = {'objective': 'regression', 'metric': 'rmse', 'learning_rate': .02, 'num_leaves': 20, 'verbose': -1}
    pred = np.zeros(len(test))
    scores = []
    for tr, va in KFold(10, shuffle=True, random_state=42).split(train):
        d_tr = lgb.Dataset(train.loc[tr, features], y[tr])
        d_va = lgb.Dataset(train.loc[va, features], y[va])
        gbm = lgb.train(params, d_tr, 5000, valid_sets=[d_va], callbacks=[lgb.early_stopping(100, verbose=False)])
        pred += gbm.predict(test[features]) / 10
        scores.append(gbm.best_score['valid_0']['rmse'])
    sub[t] = np.expm1(pred)
    print(t, 'rmsle', np.mean(scores))

sub.to_csv('submission.csv', index=False)
