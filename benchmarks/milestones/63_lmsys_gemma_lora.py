import torch
import pandas as pd
import numpy as np
from datasets import Dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

CKPT = "google/gemma-2-2b-it"
COLS = ["winner_model_a", "winner_model_b", "winner_tie"]


class Preprocess:
    def __init__(self, tokenizer, max_length=1536):
        self.tokenizer, self.max_length = tokenizer, max_length

    def __call__(self, batch):
        rows = zip(batch["prompt"], batch["response_a"], batch["response_b"])
        texts = [f"Question: {p}\n\nFirst answer: {a}\n\nSecond answer: {b}" for p, a, b in rows]
        enc = self.tokenizer(texts, max_length=self.max_length, truncation=True)
        if COLS[0] in batch:
            enc["labels"] = np.stack([batch[c] for c in COLS], axis=1).argmax(1).tolist()
        return enc


def load_model():
    quant = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    base = AutoModelForSequenceClassification.from_pretrained(CKPT, num_labels=3, quantization_config=quant)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type=TaskType.SEQ_CLS)
    model = get_peft_model(base, lora)
    model.print_trainable_parameters()
    return model


def main():
    tokenizer = AutoTokenizer.from_pretrained(CKPT)
    prep = Preprocess(tokenizer)
    train = Dataset.from_pandas(pd.read_csv("input/train.csv"))
    train = train.map(prep, batched=True, remove_columns=train.column_names)
    trainer = Trainer(
        load_model(),
        TrainingArguments("out", per_device_train_batch_size=2, gradient_accumulation_steps=8, bf16=True, report_to="none"),
        train_dataset=train,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()

    test = pd.read_csv("input/test.csv")
    ds = Dataset.from_pandas(test).map(prep, batched=True, remove_columns=list(test.columns))
    logits = torch.tensor(trainer.predict(ds).predictions)
    test[COLS] = logits.softmax(-1).numpy()
    test[["id", *COLS]].to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
