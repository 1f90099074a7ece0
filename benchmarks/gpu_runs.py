"""
Measurements of `gpu.py`, each in its own process: `gpu_runs.py step | memory | memory-lora STARTER FOLDER` writes
`figures.json` into the folder; `gpu_runs.py train FILE SCRIPT ARGUMENTS` runs a script, and notes what takes how long.
"""

import json
import runpy
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from paired import read
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.extras.profiling import ProfilingContext

from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


CUDA = torch.cuda.is_available()
COMMON = {
    "use_cpu": not CUDA, "bf16": CUDA,
    "report_to": "none", "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1,
}  # fmt: skip
PROMPTS = Dataset.from_dict({"prompt": [[{"role": "user", "content": "Kaggle competition: digits"}]] * 512})


def reward(completions: list, log_extra: Any = None, **kwargs: Any) -> list[float]:
    """Runs no program, so that only the trainer's own time is measured."""
    lengths = [len(completion[0]["content"]) for completion in completions]
    if log_extra is not None:
        log_extra("duration_s", [length / 100 for length in lengths])
    return [length % 17 / 17 for length in lengths]


def step(starter: str, folder: Path) -> dict[str, float]:
    """Median seconds of a step, ours over TRL's, in kept pairs of alternating order; the first two steps warm up."""
    path = folder / "pairs.jsonl"
    pairs, steps = (5, 6) if CUDA else (1, 4)
    config = COMMON | {"max_steps": steps, "per_device_train_batch_size": 64 if CUDA else 8, "num_generations": 8}
    config |= {"max_completion_length": 256 if CUDA else 16, "gradient_checkpointing": False}
    # So that the number of tokens is known
    config["generation_kwargs"] = {"min_new_tokens": config["max_completion_length"]}
    arms = [("trl", GRPOTrainer, GRPOConfig), ("ours", MLEGRPOTrainer, MLEGRPOConfig)]
    for pair in range(len(read(path)), pairs):
        seconds: dict[str, float] = {}
        for name, trainer_class, config_class in arms if pair % 2 else reversed(arms):
            own = {"duration_weighting": "linear"} if name == "ours" else {}
            args = config_class(str(folder / name), **config, **own)
            trainer = trainer_class(starter, reward, args=args, train_dataset=PROMPTS)
            callback = Marks()
            trainer.add_callback(callback)
            trainer.train()
            seconds[name] = statistics.median(b - a for a, b in pairwise(callback.marks[1:]))
        with path.open("a") as file:
            file.write(json.dumps(seconds) + "\n")
    ratios = [line["ours"] / line["trl"] for line in read(path)]
    tokens = config["per_device_train_batch_size"] * config["max_completion_length"]
    step_s = statistics.median(line["ours"] for line in read(path))
    return {
        "step_s": step_s,
        "ratio": statistics.median(ratios),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "tokens_per_s": tokens / step_s,
    }


def memory(starter: str, folder: Path, lora: bool) -> dict[str, float]:
    """Peak memory of training a random model of Qwen2.5-0.5B's size, and the sum that docs/recipes.md predicts."""
    tokenizer = AutoTokenizer.from_pretrained(starter)
    sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "vocab_size": 151_936}
    sizes |= {"num_attention_heads": 14, "num_key_value_heads": 2}
    if not CUDA:
        sizes |= {"hidden_size": 112, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 2048}
    batch, length = (8, 2048) if CUDA else (2, 64)
    config = Qwen2Config(**sizes, tie_word_embeddings=True, pad_token_id=tokenizer.pad_token_id)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16 if lora else torch.float32)
    parameters = model.num_parameters()
    options = {"per_device_train_batch_size": batch, "num_generations": batch, "max_completion_length": length}
    options |= {"generation_kwargs": {"min_new_tokens": length}, "max_steps": 2}
    args = MLEGRPOConfig(str(folder / "policy"), **COMMON, **options, gradient_checkpointing=True)
    peft_config = LoraConfig(r=32, target_modules="all-linear", lora_dropout=0.0) if lora else None
    trainer = MLEGRPOTrainer(model, reward, args, PROMPTS, processing_class=tokenizer, peft_config=peft_config)
    adapter = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad) if lora else 0
    trained = 2 * parameters + 16 * adapter if lora else 16 * parameters
    head = 0 if lora else sizes["vocab_size"] * sizes["hidden_size"] * 4
    # Checkpointing keeps activations in the weights' precision; the MLP of the one layer kept in full is in 16 bits
    kept = sizes["num_hidden_layers"] * sizes["hidden_size"] * (2 if lora else 4)
    expected = trained + head + 0.3e9 + batch * length * (kept + 4 * sizes["intermediate_size"] * 2)
    trainer.train()
    peak = torch.cuda.max_memory_allocated() if CUDA else 0.0
    return {"peak_gb": peak / 1e9, "expected_gb": expected / 1e9, "ratio": peak / expected}


def train(path: Path, command: list[str]) -> None:
    """Runs a training script; `path` gets a line for each block of each step that TRL times for its trackers."""

    def write(block: ProfilingContext, seconds: float) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"name": block.name, "step": block.step, "seconds": seconds}) + "\n")

    ProfilingContext._log_metrics = write
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


class Marks(TrainerCallback):
    """Records when steps end."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if CUDA:
            torch.cuda.synchronize()
        self.marks.append(time.monotonic())


if __name__ == "__main__":
    if sys.argv[1] == "train":
        sys.exit(train(Path(sys.argv[2]), sys.argv[3:]))
    kind, starter, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    found = step(starter, folder) if kind == "step" else memory(starter, folder, lora=kind == "memory-lora")
    (folder / "figures.json").write_text(json.dumps(found))
