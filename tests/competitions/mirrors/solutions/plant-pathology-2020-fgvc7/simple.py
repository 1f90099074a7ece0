"""Logistic regression on how the colors of a photo are spread."""

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def spread(image_id):
    pixels = np.asarray(Image.open(f"input/images/{image_id}.jpg")).reshape(-1, 3) / 255
    return np.percentile(pixels, [5, 50, 95], axis=0).ravel()


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
classes = list(train.columns[1:])
X, X_test = (np.stack(table["image_id"].map(spread).tolist()) for table in (train, test))
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, train[classes].to_numpy().argmax(axis=1))
test[classes] = model.predict_proba(X_test)
test.to_csv("submission.csv", index=False)
