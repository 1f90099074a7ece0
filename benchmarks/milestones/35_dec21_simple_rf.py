# Cover type with a random forest
from pandas import *
from numpy import *
from sklearn.ensemble import *
from sklearn.model_selection import *

tr = read_csv('input/train.csv')
te = read_csv('input/test.csv')

tr = tr[tr.Cover_Type != 5]    # only one row of class 5
drop = ['Id', 'Soil_Type7', 'Soil_Type15']
X = tr.drop(drop + ['Cover_Type'], axis=1)
y = tr.Cover_Type

xa, xb, ya, yb = train_test_split(X, y, test_size=.1, random_state=3)
rf = RandomForestClassifier(100, n_jobs=-1)
rf.fit(xa, ya)
print('holdout accuracy', rf.score(xb, yb))

te['Cover_Type'] = rf.predict(te.drop(drop, axis=1))
te[['Id', 'Cover_Type']].to_csv('submission.csv', index=False)
