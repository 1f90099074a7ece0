import copy
import os

import pandas as pd
import torch
import torch.nn as nn

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
torch.manual_seed(0)


def tensor(df):
    return torch.tensor(df.filter(like="pixel_").values, dtype=torch.float32).view(-1, 1, 8, 8) / 16


full = pd.read_csv("input/train.csv").sample(frac=1, random_state=0)
n_val = len(full) // 10
x_tr, y_tr = tensor(full[n_val:]), torch.tensor(full.label.values[n_val:])
x_va, y_va = tensor(full[:n_val]), torch.tensor(full.label.values[:n_val])

cnn = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 16, 10),
)
opt = torch.optim.Adam(cnn.parameters(), lr=2e-3)
best, best_state, patience = float("inf"), None, 0

while patience < 5:
    cnn.train()
    for i in torch.randperm(len(x_tr)).split(64):
        opt.zero_grad()
        nn.functional.cross_entropy(cnn(x_tr[i]), y_tr[i], label_smoothing=0.02).backward()
        opt.step()
    cnn.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(cnn(x_va), y_va).item()
    if val < best - 1e-4:
        best, best_state, patience = val, copy.deepcopy(cnn.state_dict()), 0
    else:
        patience += 1

cnn.load_state_dict(best_state)
print(f"best validation loss {best:.4f}")

test = pd.read_csv("input/test.csv")
with torch.no_grad():
    proba = cnn(tensor(test)).softmax(1).double().numpy()
columns = {f"digit_{k}": proba[:, k] / proba.sum(1) for k in range(10)}
pd.DataFrame({"id": test["id"], **columns}).to_csv("submission.csv", index=False)
