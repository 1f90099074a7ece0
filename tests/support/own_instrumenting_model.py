"""Answers with an instrumenting model of its own in each process, beside a policy whose weights are sharded under ZeRO-3."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from datasets import Dataset
from trl import GRPOTrainer

from support.on_cpu import ON_CPU
from trl_mle.launching import make_instrumenter
from trl_mle.trainer import MLEGRPOConfig


PROMPTS = ["Hi", "Write a program for the competition. " * 5, "import pandas as pd"]
TOKENS = 12


def main(model, output_dir):
    args = MLEGRPOConfig(str(output_dir), **ON_CPU, per_device_train_batch_size=4, num_generations=4)
    options = SimpleNamespace(
        instrumenter="lm", instrumenter_model=model, instrumenter_mode="quote", instrumenter_url=None
    )
    own = make_instrumenter(options, args).model
    rows = Dataset.from_dict({"prompt": ["Hi"] * 8})
    trainer = GRPOTrainer(model, lambda completions, **_: [0.0] * len(completions), args, rows)
    results = {
        "answers": [completion.text for completion in own.complete(PROMPTS[args.process_index :], TOKENS)],
        "frozen": not any(weight.requires_grad for weight in own.model.parameters()),
        "sharded": any(hasattr(weight, "ds_tensor") for weight in trainer.model.parameters()),
    }
    Path(output_dir, f"{args.process_index}.json").write_text(json.dumps(results))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
