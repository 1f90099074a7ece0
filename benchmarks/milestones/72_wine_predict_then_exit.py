import pandas as pd
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
import sys

def load_and_split(path="input/train.csv"):
    frame = pd.read_csv(path)
    return frame.drop(["id", "cultivar"], axis=1), frame["cultivar"]

features, target = load_and_split()
qda = QuadraticDiscriminantAnalysis(reg_param=0.1)
qda.fit(features, target)
print("train score:", qda.score(features, target))

test = pd.read_csv("input/test.csv")
guess = qda.predict(test[features.columns])
print(guess[:10])
sys.exit()
pd.DataFrame({"id": test.id, "cultivar": guess}).to_csv("submission.csv", index=False)
