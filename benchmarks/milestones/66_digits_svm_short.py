import pandas as pd
from sklearn.svm import SVC

# pixels run from 0 to 16, so gamma is small
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
px = [c for c in train if c.startswith("pixel_")]
clf = SVC(C=10, gamma=0.001, probability=True).fit(train[px], train.label)
out = pd.DataFrame(clf.predict_proba(test[px]), columns=[f"digit_{c}" for c in clf.classes_])
out.insert(0, "id", test.id)
out.to_csv("submission.csv", index=False)
