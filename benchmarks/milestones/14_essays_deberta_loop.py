import gc
import math
import pandas as pd
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader
from transformers import AutoTokenizer, AutoModel, get_linear_schedule_with_warmup

class CFG:
    model = 'microsoft/deberta-v3-small'
    max_len = 1024
    bs = 4
    epochs = 2
    lr = 2e-5

tokenizer = AutoTokenizer.from_pretrained(CFG.model)

class EssayDataset(Dataset):
    def __init__(self, df, train=True):
        self.texts = df['full_text'].tolist()
        self.labels = df['score'].tolist() if train else None

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        enc = tokenizer(self.texts[i], truncation=True, max_length=CFG.max_len, padding='max_length', return_tensors='pt')
        item = {k: v[0] for k, v in enc.items()}
        if self.labels is not None:
            item['y'] = torch.tensor((self.labels[i] - 1) / 5.0)
        return item

class EssayModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = AutoModel.from_pretrained(CFG.model)
        self.head = nn.Linear(self.backbone.config.hidden_size, 1)

    def forward(self, input_ids, attention_mask, **_):
        h = self.backbone(input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1)
        return self.head((h * mask).sum(1) / mask.sum(1)).squeeze(-1)

def train_one(model, loader):
    opt = torch.optim.AdamW(model.parameters(), lr=CFG.lr)
    sched = get_linear_schedule_with_warmup(opt, 50, CFG.epochs * len(loader))
    scaler = torch.cuda.amp.GradScaler()
    for epoch in range(CFG.epochs):
        for batch in loader:
            batch = {k: v.cuda() for k, v in batch.items()}
            with torch.cuda.amp.autocast():
                loss = nn.functional.mse_loss(model(**batch), batch['y'].float())
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
            sched.step()
    return model

train_df = pd.read_csv('input/train.csv')
model = EssayModel().cuda()
model = train_one(model, DataLoader(EssayDataset(train_df), batch_size=CFG.bs, shuffle=True))
gc.collect()

test_df = pd.read_csv('input/test.csv')
model.eval()
preds = []
with torch.inference_mode():
    for batch in DataLoader(EssayDataset(test_df, train=False), batch_size=CFG.bs):
        preds.append(model(**{k: v.cuda() for k, v in batch.items()}).cpu())
preds = torch.cat(preds).numpy()
test_df['score'] = (preds * 5 + 1).round().clip(1, 6).astype(int)
test_df[['essay_id', 'score']].to_csv('submission.csv', index=False)
