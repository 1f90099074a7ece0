import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.feature_extraction.text import CountVectorizer
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
device = "cuda" if torch.cuda.is_available() else "cpu"


class BagNet(nn.Module):
    def __init__(self, n_in, hidden=64):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.drop = nn.Dropout(0.5)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x)))).squeeze(1)


train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")

vec = CountVectorizer(max_features=5000, binary=True, ngram_range=(1, 2))
X = torch.tensor(vec.fit_transform(train["Comment"]).toarray(), dtype=torch.float32)
y = torch.tensor(train["Insult"].values, dtype=torch.float32)
Xt = torch.tensor(vec.transform(test["Comment"]).toarray(), dtype=torch.float32)

loader = DataLoader(TensorDataset(X, y), batch_size=64, shuffle=True)
model = BagNet(X.shape[1]).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
loss_fn = nn.BCEWithLogitsLoss()

for epoch in range(5):
    model.train()
    running = 0.0
    for xb, yb in loader:
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(xb)
    print(f"epoch {epoch}: loss {running / len(X):.4f}")

model.eval()
with torch.no_grad():
    preds = torch.sigmoid(model(Xt.to(device))).cpu().numpy()

sub = pd.read_csv("input/sample_submission_null.csv")
sub["Insult"] = preds
sub.to_csv("submission.csv", index=False)
