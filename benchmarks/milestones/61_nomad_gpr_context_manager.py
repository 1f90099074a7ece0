import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.compose import make_column_transformer


@contextmanager
def timer(name):
    t = time.perf_counter()
    yield
    print(f"[{name}] {time.perf_counter() - t:.2f} s")


with timer("load"):
    train = pd.read_csv("input/train.csv", index_col=0)
    test = pd.read_csv("input/test.csv", index_col=0)

targets = [c for c in train if c not in test]

with timer("model"):
    pre = make_column_transformer((OneHotEncoder(), ["spacegroup"]), remainder=StandardScaler())
    gp = GaussianProcessRegressor(RBF(3.0) + WhiteKernel(0.01), normalize_y=True)
    reg = TransformedTargetRegressor(make_pipeline(pre, gp), func=np.log1p, inverse_func=np.expm1)
    reg.fit(train[test.columns], train[targets])

with timer("predict"):
    sub = pd.DataFrame(reg.predict(test), index=test.index, columns=targets).clip(lower=0)
    sub.to_csv("submission.csv")
