import argparse
import time

import numpy as np
import pandas as pd
import torch
from torch import nn


def parse_args():
    p = argparse.ArgumentParser(description="MLP for TPS Dec 2021")
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=2048)
    p.add_argument("--lr", type=float, default=3e-3)
    return p.parse_args()


def load():
    train = pd.read_csv("input/train.csv")
    test = pd.read_csv("input/test.csv")
    y = torch.from_numpy(train.pop("Cover_Type").to_numpy() - 1)
    x = train.drop(columns="Id").to_numpy(np.float32)
    xt = test.drop(columns="Id").to_numpy(np.float32)
    mean, std = x.mean(0), x.std(0) + 1e-6
    return torch.from_numpy((x - mean) / std), y, torch.from_numpy((xt - mean) / std), test["Id"]


def train_epoch(net, opt, x, y, batch_size):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def predict(net, x, batch_size=16384):
    net.eval()
    return torch.cat([net(b).argmax(1) for b in x.split(batch_size)]) + 1


def main():
    args = parse_args()
    x, y, x_test, ids = load()
    net = nn.Sequential(
        nn.Linear(x.shape[1], 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.1),
        nn.Linear(256, 128), nn.BatchNorm1d(128), nn.GELU(),
        nn.Linear(128, 7),
    )
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        t0 = time.time()
        loss = train_epoch(net, opt, x, y, args.batch_size)
        print(f"[{epoch + 1}/{args.epochs}] loss={loss:.4f} ({time.time() - t0:.1f}s)")
    labels = predict(net, x_test).numpy()
    pd.DataFrame({"Id": ids, "Cover_Type": labels}).to_csv("submission.csv", index=False)


if __name__ == '__main__':
    main()
