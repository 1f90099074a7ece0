# A two-layer network with backpropagation, written by hand.
import numpy as np
import pandas as pd

rng = np.random.default_rng(1)


class Network:
    def __init__(self, sizes):
        self.W = [rng.normal(0, np.sqrt(2 / m), (m, n)) for m, n in zip(sizes[:-1], sizes[1:])]
        self.b = [np.zeros(n) for n in sizes[1:]]

    def forward(self, x):
        self.acts = [x]
        for i, (W, b) in enumerate(zip(self.W, self.b)):
            x = x @ W + b
            x = np.maximum(x, 0) if i < len(self.W) - 1 else self.softmax(x)
            self.acts.append(x)
        return x

    @staticmethod
    def softmax(z):
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def backward(self, y, lr):
        delta = (self.acts[-1] - y) / len(y)
        for i in reversed(range(len(self.W))):
            grad_w, grad_b = self.acts[i].T @ delta, delta.sum(axis=0)
            delta = (delta @ self.W[i].T) * (self.acts[i] > 0)
            self.W[i] -= lr * grad_w
            self.b[i] -= lr * grad_b

    def train(self, x, y, epochs=100, lr=0.2, batch=32):
        for epoch in range(epochs):
            order = rng.permutation(len(x))
            for k in range(0, len(x), batch):
                idx = order[k : k + batch]
                self.forward(x[idx])
                self.backward(y[idx], lr)
        print("training accuracy", (self.forward(x).argmax(1) == y.argmax(1)).mean())


df = pd.read_csv("input/train.csv")
pixels = df.filter(regex=r"^pixel_\d+$").columns
net = Network([64, 128, 10])
net.train(df[pixels].to_numpy() / 16, np.eye(10)[df["label"]])

df_test = pd.read_csv("input/test.csv")
result = pd.DataFrame(net.forward(df_test[pixels].to_numpy() / 16), columns=[f"digit_{i}" for i in range(10)])
result.insert(0, "id", df_test["id"])
result.to_csv("submission.csv", index=False)
