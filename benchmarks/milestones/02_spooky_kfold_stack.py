#!/usr/bin/env python
# coding: utf-8

# # Spooky authors: NB features + XGBoost
# This is my notebook turned into a script.

# In[1]:

import numpy as np
import pandas as pd
import string
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.model_selection import StratifiedKFold
from sklearn.metrics import log_loss
import xgboost as xgb

# In[2]:

train_df = pd.read_csv("input/train.csv")
test_df = pd.read_csv("input/test.csv")
print("Train:", train_df.shape, "Test:", test_df.shape)

y = train_df.author.map({"EAP": 0, "HPL": 1, "MWS": 2}).values

# In[3]:
# meta features

for df in (train_df, test_df):
    df["n_words"] = df.text.str.split().str.len()
    df["n_chars"] = df.text.str.len()
    df["n_punct"] = df.text.apply(lambda t: sum(c in string.punctuation for c in t))

meta = ["n_words", "n_chars", "n_punct"]

# In[4]:

cv = CountVectorizer(analyzer="char", ngram_range=(1, 5))
full = pd.concat([train_df.text, test_df.text])
cv.fit(full)
A, A_test = cv.transform(train_df.text), cv.transform(test_df.text)

oof = np.zeros((len(train_df), 3))
nb_test = np.zeros((len(test_df), 3))
folds = list(StratifiedKFold(5, shuffle=True, random_state=2017).split(A, y))
for tr, va in folds:
    nb = MultinomialNB()
    nb.fit(A[tr], y[tr])
    oof[va] = nb.predict_proba(A[va])
    nb_test += nb.predict_proba(A_test) / 5
    print(log_loss(y[va], oof[va]))

# In[5]:

X = np.hstack([train_df[meta].values, oof])
X_test = np.hstack([test_df[meta].values, nb_test])
params = dict(objective="multi:softprob", num_class=3, eta=0.1, max_depth=3, eval_metric="mlogloss")
pred = 0
for tr, va in folds:
    dtr, dva = xgb.DMatrix(X[tr], y[tr]), xgb.DMatrix(X[va], y[va])
    bst = xgb.train(params, dtr, 2000, evals=[(dva, "val")], early_stopping_rounds=50, verbose_eval=False)
    pred = pred + bst.predict(xgb.DMatrix(X_test)) / 5
    print("best", bst.best_score)

# In[6]:

out = pd.DataFrame(pred, columns=["EAP", "HPL", "MWS"])
out.insert(0, "id", test_df["id"].values)
out.to_csv("submission.csv", index=False)
out.head()
