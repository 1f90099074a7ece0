"""A forest on how many pixels have which color, after the light is taken out, and on spots of several sizes."""

import numpy as np
import pandas as pd
from PIL import Image
from scipy.ndimage import uniform_filter
from sklearn.ensemble import ExtraTreesClassifier


def features(image_id):
    pixels = np.asarray(Image.open(f"input/images/{image_id}.jpg")).astype(float)
    leaf = pixels[8:56, 12:84]
    green = np.median(leaf[20:28].reshape(-1, 3), axis=0)
    red, light = leaf[..., 0] / leaf[..., 1].clip(10), leaf.sum(axis=2) / green.sum()
    found = []
    for size in (3, 5, 9):
        redder, darker = red - uniform_filter(red, 21), light - uniform_filter(light, 21)
        for values in (uniform_filter(redder, size), uniform_filter(darker, size)):
            found += np.percentile(values, [0.5, 2, 10, 50, 90, 98, 99.5]).tolist()
    both = np.histogram2d(red.ravel(), light.ravel(), bins=[[0, 0.6, 0.8, 1.0, 1.3, 9], [0, 0.5, 0.75, 1, 1.3, 9]])[0]
    return [*found, *(both.ravel() / both.sum())]


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
classes = list(train.columns[1:])
X, X_test = (np.array([features(name) for name in table["image_id"]]) for table in (train, test))
model = ExtraTreesClassifier(200, min_samples_leaf=3, max_features=0.4, random_state=0)
model.fit(X, train[classes].to_numpy().argmax(axis=1))
test[classes] = model.predict_proba(X_test)
test.to_csv("submission.csv", index=False)
