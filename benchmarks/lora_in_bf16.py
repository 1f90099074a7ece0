"""
How much of an adapter reaches a sampler with 16-bit weights: `python benchmarks/lora_in_bf16.py`, a minute on a CPU.

vLLM samples from base weights with the adapter merged into them, rounded to bf16. A step changes a weight by far less than
bf16's steps of 1/256, so that rounding to the nearest loses most of it. This measures the change of tokens'
log-probabilities with the merged weights (in 32-bit arithmetic), compared with that of the exact sum: the share that
arrives (the slope of a regression), and the noise, relative to the exact change. Rounding is to the nearest, as in TRL
and here, or at random (up with the probability that keeps the mean).

A Qwen2 model with 11M random parameters, LoRA r = 16 on all linear layers, Adam at the recipes' 1e-4; seeds 0-2.
"""

import copy
import json

import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import Qwen2Config, Qwen2ForCausalLM, set_seed


STEPS = 1, 10, 100


def nearest(weight: torch.Tensor) -> torch.Tensor:
    return weight.bfloat16().float()


def at_random(weight: torch.Tensor) -> torch.Tensor:
    """bf16 keeps the upper half of a float's bits: adds a random lower half, and cuts that off."""
    bits = weight.view(torch.int32) + torch.randint(0, 1 << 16, weight.shape, dtype=torch.int32)
    return (bits & -(1 << 16)).view(torch.float32)


def log_probabilities(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model(ids).logits[:, :-1].log_softmax(-1)
    return logits.gather(-1, ids[:, 1:, None]).squeeze(-1).double()


def measure(seed: int) -> dict[int, dict[str, tuple[float, float]]]:
    """The share that arrives, and the relative noise, by number of steps and kind of rounding."""
    set_seed(seed)
    sizes = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "vocab_size": 1024}
    base = Qwen2ForCausalLM(
        Qwen2Config(**sizes, num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True)
    )
    for weight in base.parameters():
        weight.data = nearest(weight.data)  # as in a bf16 base
    policy = get_peft_model(copy.deepcopy(base), LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    optimizer = torch.optim.AdamW([weight for weight in policy.parameters() if weight.requires_grad], lr=1e-4)
    ids = torch.randint(0, 1024, (4, 64))
    before = log_probabilities(base, ids)
    found = {}
    for step in range(1, max(STEPS) + 1):
        # A policy gradient, which moves some tokens up and others down
        advantages = torch.randn(4, 1)
        batch = torch.randint(0, 1024, (4, 64))
        logps = policy(batch).logits[:, :-1].log_softmax(-1).gather(-1, batch[:, 1:, None]).squeeze(-1)
        (-(advantages * logps).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in STEPS:
            merged = copy.deepcopy(policy).merge_and_unload()
            exact = log_probabilities(merged, ids) - before
            found[step] = {}
            for rounding in (nearest, at_random):
                rounded = copy.deepcopy(merged)
                for weight in rounded.parameters():
                    weight.data = rounding(weight.data)
                change = log_probabilities(rounded, ids) - before
                share = (change * exact).sum() / (exact * exact).sum()
                noise = (change - share * exact).norm() / exact.norm()
                found[step][rounding.__name__] = share.item(), noise.item()
    return found


def main() -> None:
    torch.set_num_threads(1)
    runs = [measure(seed) for seed in range(3)]
    print(json.dumps(runs))
    table = Table("steps", "nearest: share", "noise", "at random: share", "noise")
    for step in STEPS:
        columns = zip(*([*run[step]["nearest"], *run[step]["at_random"]] for run in runs), strict=True)
        table.add_row(str(step), *(f"{min(column):.2f} to {max(column):.2f}" for column in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
