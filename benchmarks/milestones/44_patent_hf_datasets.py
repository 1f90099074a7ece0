from datasets import load_dataset
from transformers import (AutoTokenizer, AutoModelForSequenceClassification, Trainer, TrainingArguments, set_seed)
import numpy as np

set_seed(17)
ckpt = "anferico/bert-for-patents"

ds = load_dataset("csv", data_files={"train": "input/train.csv", "test": "input/test.csv"})
tok = AutoTokenizer.from_pretrained(ckpt)

def preprocess(batch):
    left = [f"{c} {a}" for c, a in zip(batch["context"], batch["anchor"])]
    out = tok(left, batch["target"], truncation=True, max_length=64, padding="max_length")
    if "score" in batch:
        out["labels"] = [float(s) for s in batch["score"]]
    return out

train_set = ds["train"].map(preprocess, batched=True)
test_set = ds["test"].map(preprocess, batched=True)
split = train_set.train_test_split(test_size=0.1, seed=17)

def compute_metrics(p):
    return {"pearson": float(np.corrcoef(p.predictions.squeeze(), p.label_ids)[0, 1])}

trainer = Trainer(
    model_init=lambda: AutoModelForSequenceClassification.from_pretrained(ckpt, num_labels=1),
    args=TrainingArguments("ckpt", learning_rate=2e-5, num_train_epochs=3, per_device_train_batch_size=64, report_to=[]),
    train_dataset=split["train"],
    eval_dataset=split["test"],
    compute_metrics=compute_metrics,
)
trainer.train()
metrics = trainer.evaluate()
print({k: round(v, 4) for k, v in metrics.items()})

pred = trainer.predict(test_set).predictions.squeeze()

with open("submission.csv", "w") as f:
    print("id,score", file=f)
    for i, s in zip(ds["test"]["id"], np.clip(pred, 0, 1)):
        print(f"{i},{s:.5f}", file=f)
