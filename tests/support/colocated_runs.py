"""
Trainings whose completions a colocated vLLM samples, on a CPU. Run as a script by an environment that has vLLM; see
test_colocated_vllm.py.
"""

import functools
import json
import sys
from pathlib import Path

import torch
from datasets import Dataset

from support.on_cpu import ON_CPU
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


def keep_weights(layer, remove_weight):
    """Takes the place of what packs weights for the CPU when they are loaded: packed ones cannot be replaced."""
    layer.cpu_linear = torch.nn.functional.linear


def run(model, folder, seed, resumed=None):
    """What is sampled at each step of a run, or of one that goes on after the first step of another."""
    sampled = []

    def reward(completion_ids, **kwargs):
        sampled.append(completion_ids)
        return [sum(ids) % 11 / 10 for ids in completion_ids]

    config = ON_CPU | {
        "seed": seed,
        "max_steps": 2,
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 8,
        "save_strategy": "steps",
        "save_steps": 1,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_max_model_length": 64,
    }
    prompts = Dataset.from_dict({"prompt": [[{"role": "user", "content": "Write a program."}]] * 8})
    trainer = MLEGRPOTrainer(model, reward, MLEGRPOConfig(str(folder), **config), prompts)
    trainer.train(resume_from_checkpoint=str(folder.parent / resumed / "checkpoint-1") if resumed else None)
    return sampled


def main(model, folder, runs):
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    utils.dispatch_cpu_unquantized_gemm = keep_weights
    vllm_generation.LLM = functools.partial(vllm_generation.LLM, dtype="float32")  # as it is trained; else 16 bits
    sampled = {name: run(model, Path(folder, name), **options) for name, options in json.loads(runs).items()}
    Path(folder, "sampled.json").write_text(json.dumps(sampled))


if __name__ == "__main__":
    main(*sys.argv[1:])
