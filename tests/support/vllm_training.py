"""Runs the training script with a real vLLM, on a CPU."""

import json
import os
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from support import vllm_on_cpu
from support.advised_models import advise
from support.launch import launch
from support.tiny_models import SOLUTION_LINES
from support.vllm_server import VllmServer


ROOT = Path(__file__).parents[2]
STEPS, PROGRAMS = 3, 8


def teach_policy(path, folder):
    """Saves a policy that writes random lines of programs, half of them valid, and whose folder has advice."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path)
    lines = torch.tensor([tokenizer.convert_tokens_to_ids(line) for line in SOLUTION_LINES])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        asked = torch.randint(3, model.config.vocab_size, (16, 8))
        written = lines[torch.randint(len(lines), (16, 8))]
        loss = model(torch.cat([asked, written], 1), labels=torch.cat([torch.full_like(asked, -100), written], 1)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    advise(folder)
    return str(folder)


def run_script(policy, folder, processes=1, zero_stage=0, environment=None, **options):
    """Runs the script; returns its exit status and its output."""
    python = os.environ["VLLM_PYTHON"]
    folder.mkdir(exist_ok=True)
    options = {
        "config": ROOT / "recipes" / "quickstart.yaml",
        "model_name_or_path": policy,
        "output_dir": folder,
        "use_vllm": "true",
        "vllm_max_model_length": 4096,
        "max_prompt_length": 4000,
        "max_completion_length": 8,
        "per_device_train_batch_size": PROGRAMS // processes,
        "num_generations": 4,
        "max_steps": STEPS,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "max_parallel_programs": 1,
        "sandbox": "none",
    } | options
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    path = f"{Path(python).parent}:{os.environ['PATH']}"  # with ninja, which DeepSpeed needs
    return launch(
        vllm_on_cpu.__file__,
        [str(ROOT / "recipes" / "train_mle.py"), *arguments],
        folder,
        timeout_s=600,
        environment=vllm_on_cpu.ENVIRONMENT | {"PATH": path} | (environment or {}),
        processes=processes,
        zero_stage=zero_stage,
        python=python,
    )


def train(policy, folder, processes=1, zero_stage=0, environment=None, **options):
    """Runs the script, which must succeed; returns what it logged at each step."""
    code, output = run_script(policy, folder, processes, zero_stage, environment, **options)
    assert code == 0, output[-5000:]
    assert "Traceback" not in output, output[-8000:]
    assert "Error" not in output, output[-8000:]
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [row for row in history if "loss" in row]


def assert_sampler_is_policy(history, steps=STEPS):
    """vLLM and the trainer agree on how probable the samples are at each step: vLLM has the weights of each update."""
    assert len(history) == steps
    for row in history:
        assert row["sampling/sampling_logp_difference/max"] < 1e-4
        assert row["sampling/importance_sampling_ratio/min"] == pytest.approx(1, abs=1e-3)
        assert row["sampling/importance_sampling_ratio/max"] == pytest.approx(1, abs=1e-3)
    assert any(row["grad_norm"] > 0 for row in history[:-1])  # otherwise no update had to reach vLLM


def training_server(policy, log):
    """A `vllm serve` that takes weights from a file, that file, and the environment that a trainer needs for it."""
    weights = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else log.parent, f"{log.parent.name}.safetensors")
    server = VllmServer(
        policy,
        log,
        *("--weight-transfer-config", '{"backend": "file"}'),
        *("--worker-extension-cls", "support.file_weights.Extension"),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        VLLM_SERVER_DEV_MODE="1",
        PYTHONPATH=str(ROOT / "tests"),
    )
    return server, weights, {vllm_on_cpu.WEIGHTS_FILE: str(weights)}
