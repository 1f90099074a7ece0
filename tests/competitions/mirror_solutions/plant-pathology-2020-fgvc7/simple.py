"""Logistic regression on the mean color."""

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def mean_color(image_id):
    return np.asarray(Image.open(f"input/images/{image_id}.jpg")).mean(axis=(0, 1))


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
classes = list(train.columns[1:])
X, X_test = np.stack(train["image_id"].map(mean_color).tolist()), np.stack(test["image_id"].map(mean_color).tolist())
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, train[classes].to_numpy().argmax(axis=1))
test[classes] = model.predict_proba(X_test)
test.to_csv("submission.csv", index=False)
