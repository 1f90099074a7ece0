import lightgbm as lgb
import pandas as pd
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.metrics import roc_auc_score

train = pd.read_csv('input/train.csv', index_col='id')
test = pd.read_csv('input/test.csv', index_col='id')

# f_27 is a string of 10 letters -> one column per letter
for df in [train, test]:
    for pos in range(10):
        df[f'letter_{pos}'] = [ord(s[pos]) - 65 for s in df.f_27]
    df['n_letters'] = [len(set(s)) for s in df.f_27]
    # sums that looked useful in the plots
    df['sum_a'] = df.f_21 + df.f_02
    df['sum_b'] = df.f_22 + df.f_05

features = [f for f in test.columns if f != 'f_27']
X_tr, X_va, y_tr, y_va = train_test_split(train[features], train.target, test_size=0.2, random_state=1)

model = lgb.LGBMClassifier(n_estimators=5000, num_leaves=64, learning_rate=0.05, random_state=1)
model.fit(
    X_tr, y_tr,
    eval_set=[(X_va, y_va)],
    eval_metric='auc',
    callbacks=[lgb.early_stopping(100), lgb.log_evaluation(500)],
)
va_pred = model.predict_proba(X_va)[:, 1]
print(f'Validation AUC = {roc_auc_score(y_va, va_pred):.5f}')

# retrain on all data
best_n = int(model.best_iteration_ * 1.2)
final = lgb.LGBMClassifier(n_estimators=best_n, num_leaves=64, learning_rate=0.05, random_state=1)
final.fit(train[features], train.target)

submission = test[[]].copy()
submission['target'] = final.predict_proba(test[features])[:, 1]
submission.to_csv('submission.csv')
