import json

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

with open('input/train.json') as f:
    train = pd.DataFrame(json.load(f))
with open('input/test.json') as f:
    test = pd.DataFrame(json.load(f))

# only use features available in both files
common = [c for c in train.columns if c in test.columns]
numeric = [c for c in common if np.issubdtype(train[c].dtype, np.number)]
print(len(numeric), 'numeric features')

for d in [train, test]:
    d['text_len'] = d['request_text_edit_aware'].str.len()
    d['title_len'] = d['request_title'].str.len()
    d['has_image'] = d['request_text_edit_aware'].str.contains('imgur').astype(int)
numeric += ['text_len', 'title_len', 'has_image']

X = train[numeric].fillna(0)
y = train['requester_received_pizza'].astype(int)

rf = RandomForestClassifier(n_estimators=500, min_samples_leaf=5, n_jobs=-1, random_state=42)
rf.fit(X, y)
print('Train accuracy:', rf.score(X, y))

test['requester_received_pizza'] = rf.predict_proba(test[numeric].fillna(0))[:, 1]
test[['request_id', 'requester_received_pizza']].to_csv('submission.csv', index=False)
