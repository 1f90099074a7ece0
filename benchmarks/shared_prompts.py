"""
What `share_prompts` saves: `python benchmarks/shared_prompts.py MODEL`, some ten minutes for 0.5 billion weights on two CPU cores.

One micro-batch of the log-probabilities and their gradient (LoRA on all linear layers, in bfloat16), and the sampling of some
tokens, with each prompt computed for each completion and once: side by side in one run, medians of `--repeats`, in seconds. Random
tokens: the cost does not depend on which.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from statistics import median

import torch
from datasets import Dataset
from peft import LoraConfig
from rich.console import Console
from rich.table import Table
from transformers import set_seed

from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name or folder")
    parser.add_argument("--prompt_tokens", type=int, default=500)
    parser.add_argument("--completion_tokens", type=int, default=192)
    parser.add_argument("--completions", type=int, default=8, help="of one prompt, in one micro-batch")
    parser.add_argument("--sampled_tokens", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        config = MLEGRPOConfig(
            folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=args.completions,
            num_generations=args.completions,
            max_completion_length=args.sampled_tokens,
            model_init_kwargs={"dtype": "bfloat16"},
            generation_kwargs={"cache_implementation": "static", "min_new_tokens": args.sampled_tokens},
            report_to="none",
        )
        lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        trainer = MLEGRPOTrainer(
            args.model, lambda **_: [], config, Dataset.from_dict({"prompt": ["a"]}), peft_config=lora
        )
    vocabulary = trainer.model.config.vocab_size
    prompt = torch.randint(vocabulary, (1, args.prompt_tokens)).expand(args.completions, -1)
    ids = torch.cat([prompt, torch.randint(vocabulary, (args.completions, args.completion_tokens))], dim=1)

    def step() -> None:
        inputs = torch.ones_like(ids), args.completion_tokens
        logps, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, *inputs, compute_entropy=True)
        logps.sum().backward()
        trainer.model.zero_grad()

    def sample() -> None:
        trainer._generate_single_turn(prompt.tolist(), None, {}, args.completions)

    parts = {"training": step, f"sampling {args.sampled_tokens} tokens": sample}
    found: dict[str, dict[bool, list[float]]] = {name: {False: [], True: []} for name in parts}
    for _ in range(args.repeats):
        for name, call in parts.items():
            for share in (False, True):
                trainer.args.share_prompts = share
                found[name][share].append(seconds(call))
    table = Table("", "for each completion (s)", "once (s)", "ratio")
    rows = {name: (median(times[False]), median(times[True])) for name, times in found.items()}
    for name, (apart, shared) in rows.items():
        table.add_row(name, f"{apart:.1f}", f"{shared:.1f}", f"{apart / shared:.1f}")
    Console().print(table)
    print(json.dumps({"threads": torch.get_num_threads(), **vars(args), "seconds": rows}))


if __name__ == "__main__":
    main()
