"""The training script with a real vLLM, on a CPU: `make test-vllm`. A run takes a minute of quiet cores."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support import vllm_on_cpu
from support.launch import launch
from support.tiny_models import SOLUTION_LINES
from support.vllm_server import VllmServer
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed


pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
STEPS, PROGRAMS = 3, 8


@pytest.fixture(scope="module")
def policy(solution_model, tmp_path_factory):
    """Folder of a policy that has learnt to write lines of programs, any of them, so that a half of its programs is valid."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(solution_model.path)
    model = AutoModelForCausalLM.from_pretrained(solution_model.path)
    lines = torch.tensor([tokenizer.convert_tokens_to_ids(line) for line in SOLUTION_LINES])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        asked = torch.randint(3, model.config.vocab_size, (16, 8))
        written = lines[torch.randint(len(lines), (16, 8))]
        loss = model(torch.cat([asked, written], 1), labels=torch.cat([torch.full_like(asked, -100), written], 1)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = tmp_path_factory.mktemp("policy")
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


def train(policy, folder, processes=1, zero_stage=0, environment=None, **options):
    """Runs the script; returns what its last checkpoint has logged."""
    python = os.environ["VLLM_PYTHON"]
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
    folder.mkdir()
    code, output = launch(
        vllm_on_cpu.__file__,
        [str(ROOT / "recipes" / "train_mle.py"), *arguments],
        folder,
        timeout_s=600,
        environment={
            **vllm_on_cpu.ENVIRONMENT,
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",  # where ninja is, which DeepSpeed needs
            **(environment or {}),
        },
        processes=processes,
        zero_stage=zero_stage,
        python=python,
    )
    assert code == 0, output[-5000:]
    assert "Traceback" not in output, output[-8000:]
    assert "Error" not in output, output[-8000:]
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [row for row in history if "loss" in row]


def assert_sampler_is_policy(history, steps=STEPS):
    """What vLLM sampled is as probable to the trainer at each step: it has had the weights of each update."""
    assert len(history) == steps
    for row in history:
        assert row["sampling/sampling_logp_difference/max"] < 1e-4
        assert row["sampling/importance_sampling_ratio/min"] == pytest.approx(1, abs=1e-3)
        assert row["sampling/importance_sampling_ratio/max"] == pytest.approx(1, abs=1e-3)
    assert any(row["grad_norm"] > 0 for row in history[:-1])  # else there was nothing to tell vLLM


def test_two_turns_best_of_n_and_resume(policy, tmp_path):
    options = {"max_turns": 2, "best_of_n": 4, "best_of_n_steps": 2, "save_strategy": "steps", "save_steps": 2}
    whole = train(policy, tmp_path / "whole", max_steps=4, **options)
    assert_sampler_is_policy(whole, 4)
    assert any("mle/eval/best_of_n" in row for row in whole) or (tmp_path / "whole" / "evaluations").is_dir()
    first = tmp_path / "whole" / "checkpoint-2"
    resumed = train(policy, tmp_path / "resumed", max_steps=4, resume_from_checkpoint=first, **options)
    names = "reward", "loss", "grad_norm", "entropy", "mle/valid_rate", "mle/improve/valid_rate"
    assert [[row.get(name) for name in names] for row in resumed] == [
        [row.get(name) for name in names] for row in whole
    ]
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "resumed")]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_zero3_lora_and_asynchronous(policy, tmp_path):
    lora = {"use_peft": "true", "lora_r": 8, "lora_target_modules": "all-linear"}
    history = train(policy, tmp_path / "run", processes=2, zero_stage=3, async_rollouts="true", **lora)
    assert_sampler_is_policy(history)
    assert all("mle/async/staleness/mean" in row for row in history)


def test_tensor_parallel(policy, tmp_path):
    assert_sampler_is_policy(train(policy, tmp_path / "run", processes=2, vllm_tensor_parallel_size=2))


def test_server_and_improve_prompts(policy, tmp_path):
    weights = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path, f"{tmp_path.name}.safetensors")
    server = VllmServer(
        policy,
        tmp_path / "server.log",
        *(
            "--weight-transfer-config",
            '{"backend": "file"}',
            "--worker-extension-cls",
            "support.file_weights.Extension",
        ),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        VLLM_SERVER_DEV_MODE="1",
        PYTHONPATH=str(ROOT / "tests"),
    )
    try:
        server.start()
        history = train(
            policy,
            tmp_path / "run",
            processes=2,
            environment={vllm_on_cpu.WEIGHTS_FILE: str(weights)},
            vllm_mode="server",
            vllm_server_base_url=server.url,
            improve_probability=0.5,
        )
    finally:
        server.kill()
        weights.unlink(missing_ok=True)
    assert_sampler_is_policy(history)
    assert any("mle/improve/valid_rate" in row for row in history)
