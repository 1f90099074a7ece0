import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
NAME = "roberta-base"
tok = AutoTokenizer.from_pretrained(NAME)


def read(name):
    df = pd.read_csv(f"input/{name}.csv").fillna("")
    return df[df["text"] != ""].reset_index(drop=True) if name == "train" else df


def encode(df):
    return tok(df["sentiment"].tolist(), df["text"].tolist(), truncation=True, max_length=128,
               padding="max_length", return_offsets_mapping=True, return_tensors="pt")


def spans(df, enc):
    start, end = [], []
    for i, (text, sel) in enumerate(zip(df["text"], df["selected_text"])):
        c0 = text.find(sel)
        c1 = c0 + len(sel) - 1
        start.append(enc.char_to_token(i, c0, 1) or 0)
        end.append(enc.char_to_token(i, c1, 1) or 0)
    return torch.tensor(start), torch.tensor(end)


train = read("train")
enc = encode(train)
s, e = spans(train, enc)

model = AutoModelForQuestionAnswering.from_pretrained(NAME).to(DEVICE)
opt = torch.optim.AdamW(model.parameters(), lr=3e-5)
order = np.arange(len(train))
for epoch in range(3):
    np.random.shuffle(order)
    bar = tqdm(range(0, len(order), 32))
    for k in bar:
        idx = order[k : k + 32]
        loss = model(
            input_ids=enc["input_ids"][idx].to(DEVICE),
            attention_mask=enc["attention_mask"][idx].to(DEVICE),
            start_positions=s[idx].to(DEVICE),
            end_positions=e[idx].to(DEVICE),
        ).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
        bar.set_postfix(loss=loss.item())

test = read("test")
enc = encode(test)
answers = []
model.eval()
with torch.no_grad():
    for k in range(0, len(test), 64):
        out = model(enc["input_ids"][k : k + 64].to(DEVICE), attention_mask=enc["attention_mask"][k : k + 64].to(DEVICE))
        for j, (a, b) in enumerate(zip(out.start_logits.argmax(-1).tolist(), out.end_logits.argmax(-1).tolist())):
            off = enc["offset_mapping"][k + j]
            text = test["text"][k + j]
            answers.append(text[off[a][0] : off[b][1]] if a <= b else text)

test["selected_text"] = [f'"{t}"' for t in answers]
test[["textID", "selected_text"]].to_csv("submission.csv", index=False)
