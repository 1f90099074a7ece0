import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

# Load data
train = pd.read_csv('input/train.csv')
test = pd.read_csv('input/test.csv')

# Vectorize
vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
X_train = vectorizer.fit_transform(train['text'])
X_test = vectorizer.transform(test['text'])
y_train = train['author']

# Train model
model = LogisticRegression(C=10, max_iter=1000)
model.fit(X_train, y_train)

# Predict
probs = model.predict_proba(X_test)

# Save submission
submission = pd.DataFrame(probs, columns=model.classes_)
submission.insert(0, 'id', test['id'])
submission.to_csv('submission.csv', index=False)
