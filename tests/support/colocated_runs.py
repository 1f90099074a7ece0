"""
Training runs with completions from a colocated vLLM, on a CPU. test_colocated_vllm.py runs this script in an
environment that has vLLM.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset

from support import vllm_on_cpu
from support.on_cpu import ON_CPU
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


PROMPT = [{"role": "user", "content": "Write a program."}]


def run(model, folder, seed, resumed=None):
    """Samples of each step, and greedy answers at the end, of a run that starts afresh or after step 1 of run `resumed`."""
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
    prompts = Dataset.from_dict({"prompt": [PROMPT] * 8})
    trainer = MLEGRPOTrainer(model, reward, MLEGRPOConfig(str(folder), **config), prompts)
    trainer.train(resume_from_checkpoint=str(folder.parent / resumed / "checkpoint-1") if resumed else None)
    return sampled, greedy_answers(trainer)


def greedy_answers(trainer):
    """Greedy answers of transformers, of vLLM before its last weight update, and of vLLM after it."""
    from vllm import SamplingParams

    ids = trainer.processing_class.apply_chat_template(PROMPT, add_generation_prompt=True, return_dict=False)
    with torch.no_grad():
        answer = trainer.model.generate(torch.tensor([ids]), do_sample=False, min_new_tokens=32, max_new_tokens=32)
    answers = {"transformers": answer[0, len(ids) :].tolist()}
    parameters = SamplingParams(temperature=0.0, min_tokens=32, max_tokens=32)
    for name in ("before", "after"):
        (output,) = trainer.vllm_generation.llm.generate({"prompt_token_ids": ids}, parameters, use_tqdm=False)
        answers[name] = list(output.outputs[0].token_ids)
        trainer.vllm_generation.sync_weights()
    return answers


def main(model, folder, runs):
    vllm_on_cpu.prepare()
    results = {name: run(model, Path(folder, name), **options) for name, options in json.loads(runs).items()}
    Path(folder, "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
