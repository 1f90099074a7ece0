"""
Logistic regression by gradient descent, only numpy.
"""
import numpy as np

rng = np.random.default_rng(0)

with open("input/train.csv") as f:
    header = f.readline().strip().split(",")
skip = {header.index("id"), header.index("f_27"), header.index("target")}
cols = [i for i in range(len(header)) if i not in skip]

X = np.loadtxt("input/train.csv", delimiter=",", skiprows=1, usecols=cols)
y = np.loadtxt("input/train.csv", delimiter=",", skiprows=1, usecols=header.index("target"))
mu, sd = X.mean(0), X.std(0) + 1e-9
X = (X - mu) / sd

w = rng.normal(scale=0.01, size=X.shape[1])
b = 0.0
lr, batch = 0.1, 4096

for epoch in range(20):
    perm = rng.permutation(len(X))
    for start in range(0, len(X), batch):
        i = perm[start:start + batch]
        p = 1 / (1 + np.exp(-(X[i] @ w + b)))
        g = p - y[i]
        w -= lr * (X[i].T @ g / len(i) + 1e-5 * w)
        b -= lr * g.mean()

# the test file has the same columns without the target (it is the last one)
T = np.loadtxt("input/test.csv", delimiter=",", skiprows=1, usecols=cols)
ids = np.loadtxt("input/test.csv", delimiter=",", skiprows=1, usecols=0, dtype=int)
scores = 1 / (1 + np.exp(-(((T - mu) / sd) @ w + b)))
np.savetxt("submission.csv", np.c_[ids, scores], fmt=["%d", "%.6f"], delimiter=",", header="id,target", comments="")
