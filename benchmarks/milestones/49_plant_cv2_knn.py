import glob, os
import cv2
import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

def read_image(path, size=64):
    img = cv2.imread(path)
    img = cv2.cvtColor(img, cv2.COLOR_BGR2LAB)
    return cv2.resize(img, (size, size)).astype(np.float32).ravel() / 255.

train = pd.read_csv('input/train.csv').set_index('image_id')
X, y, X_test, test_ids = [], [], [], []
for path in sorted(glob.glob('input/images/*.jpg')):
    name = os.path.splitext(os.path.basename(path))[0]
    if name in train.index:
        X.append(read_image(path))
        y.append(train.loc[name].values.argmax())
    else:
        X_test.append(read_image(path))
        test_ids.append(name)

X, y, X_test = np.array(X), np.array(y), np.array(X_test)
print(X.shape, X_test.shape)
knn = make_pipeline(StandardScaler(), PCA(50), KNeighborsClassifier(25, weights='distance'))
knn.fit(X, y)
p = pd.DataFrame(knn.predict_proba(X_test), columns=train.columns, index=test_ids)
sample = pd.read_csv('input/sample_submission.csv')
p.loc[sample.image_id].rename_axis('image_id').reset_index().to_csv('submission.csv', index=False)
