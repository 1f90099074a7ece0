import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy.special import softmax
from sklearn.model_selection import train_test_split
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

MODEL_NAME = "distilbert-base-uncased"
label2id = {"EAP": 0, "HPL": 1, "MWS": 2}

df = pd.read_csv("input/train.csv")
df["label"] = df["author"].map(label2id)
train_df, val_df = train_test_split(df, test_size=0.1, stratify=df["label"], random_state=42)
test_df = pd.read_csv("input/test.csv")

tokenizer = AutoTokenizer.from_pretrained(MODEL_NAME)


def tokenize(batch):
    return tokenizer(batch["text"], truncation=True, max_length=128)


train_ds = Dataset.from_pandas(train_df[["text", "label"]]).map(tokenize, batched=True)
val_ds = Dataset.from_pandas(val_df[["text", "label"]]).map(tokenize, batched=True)
test_ds = Dataset.from_pandas(test_df[["text"]]).map(tokenize, batched=True)

model = AutoModelForSequenceClassification.from_pretrained(MODEL_NAME, num_labels=3)

args = TrainingArguments(
    output_dir="out",
    num_train_epochs=2,
    per_device_train_batch_size=32,
    per_device_eval_batch_size=64,
    learning_rate=3e-5,
    evaluation_strategy="epoch",
    fp16=torch.cuda.is_available(),
    report_to="none",
)

trainer = Trainer(
    model=model,
    args=args,
    train_dataset=train_ds,
    eval_dataset=val_ds,
    tokenizer=tokenizer,
    data_collator=DataCollatorWithPadding(tokenizer),
)
trainer.train()
print(trainer.evaluate())

logits = trainer.predict(test_ds).predictions
probs = softmax(logits, axis=1)

sub = pd.DataFrame(probs, columns=["EAP", "HPL", "MWS"])
sub.insert(0, "id", test_df["id"])
sub.to_csv("submission.csv", index=False)
