import torch
import pandas as pd
import pytorch_lightning as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class DataModule(pl.LightningDataModule):
    def setup(self, stage=None):
        train = pd.read_csv("input/train.csv")
        test = pd.read_csv("input/test.csv")
        cols = [c for c in test.columns if c not in ("id", "f_27")]
        mean, std = train[cols].mean(), train[cols].std()
        x = torch.tensor(((train[cols] - mean) / std).values).float()
        y = torch.tensor(train["target"].values).float()
        self.train_set, self.val_set = random_split(TensorDataset(x, y), [0.9, 0.1])
        self.test_set = TensorDataset(torch.tensor(((test[cols] - mean) / std).values).float())
        self.ids, self.n_features = test["id"], len(cols)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=1024, shuffle=True, num_workers=2)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=4096)

    def predict_dataloader(self):
        return DataLoader(self.test_set, batch_size=4096)


class Net(pl.LightningModule):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.binary_cross_entropy_with_logits(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", nn.functional.binary_cross_entropy_with_logits(self(x), y), prog_bar=True)

    def predict_step(self, batch, _):
        return torch.sigmoid(self(batch[0]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


dm = DataModule()
dm.setup()
net = Net(dm.n_features)
trainer = pl.Trainer(max_epochs=10, accelerator="auto", logger=False)
trainer.fit(net, datamodule=dm)
pred = torch.cat(trainer.predict(net, datamodule=dm)).numpy()
pd.DataFrame({"id": dm.ids, "target": pred}).to_csv("submission.csv", index=False)
