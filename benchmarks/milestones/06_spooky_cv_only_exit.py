import sys
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import Pipeline

train = pd.read_csv("input/train.csv")

clf = Pipeline([
    ("vec", CountVectorizer(stop_words="english")),
    ("nb", ComplementNB()),
])

scores = cross_val_score(clf, train.text, train.author, scoring="neg_log_loss", cv=5)
print("CV:", -scores.mean(), "+/-", scores.std())

# just checking the baseline for now
sys.exit(0)

test = pd.read_csv("input/test.csv")
clf.fit(train.text, train.author)
sub = pd.DataFrame(clf.predict_proba(test.text), columns=clf.classes_)
sub.insert(0, "id", test.id)
sub.to_csv("submission.csv", index=False)
