"""Writes the sample first, so that something is there if the time runs out."""
import shutil
import sys
import time

shutil.copyfile("input/sample_submission.csv", "submission.csv")

import numpy as np
import pandas as pd
import timm
import torch
from PIL import Image
from timm.data import create_transform, resolve_data_config
from torch.utils.data import DataLoader, Dataset

T0, LIMIT = time.time(), 1500
train = pd.read_csv("input/train.csv")
sub = pd.read_csv("input/sample_submission.csv")
targets = [c for c in sub.columns if c != "image_id"]

net = timm.create_model("tf_efficientnet_b0.ns_jft_in1k", pretrained=True, num_classes=len(targets))
config = resolve_data_config({}, model=net)


class Leaves(Dataset):
    def __init__(self, ids, y=None):
        self.ids, self.y = list(ids), y
        self.tf = create_transform(**config, is_training=y is not None)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        x = self.tf(Image.open(f"input/images/{self.ids[i]}.jpg"))
        return x, (0 if self.y is None else torch.tensor(self.y[i], dtype=torch.float32))


opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
epoch = 0
while time.time() - T0 < LIMIT and epoch < 12:
    for x, y in DataLoader(Leaves(train.image_id, train[targets].values), batch_size=16, shuffle=True):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    epoch += 1

if epoch == 0:
    sys.exit("no time to train")

test = pd.read_csv("input/test.csv")
net.eval()
with torch.no_grad():
    out = [torch.sigmoid(net(x)) for x, _ in DataLoader(Leaves(test.image_id), batch_size=32)]
sub[targets] = torch.cat(out).numpy()
sub.to_csv("submission.csv", index=False)
