"""The training script with a real vLLM, on a CPU: `make test-vllm`. A run takes a minute on idle cores."""

import pytest
import torch
from safetensors.torch import load_file
from support.vllm_training import assert_sampler_is_policy, teach_policy, train


pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def policy(solution_model, tmp_path_factory):
    return teach_policy(solution_model.path, tmp_path_factory.mktemp("policy"))


def test_a_run_and_its_resume(policy, tmp_path):
    """Ratios are one, whatever sampling the policy's folder advises."""
    options = {"save_strategy": "steps", "save_steps": 2}
    whole = train(policy, tmp_path / "whole", max_steps=4, **options)
    assert_sampler_is_policy(whole, 4)
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


def test_a_pretrained_model(smollm2, tmp_path):
    """With its tokenizer and chat template, answers that are begun for it, tied weights, and prompts that are computed once."""
    lora = {"use_peft": "true", "lora_target_modules": "all-linear", "share_prompts": "true"}
    lengths = {"begin_program": "true", "max_completion_length": 16, "per_device_train_batch_size": 4}
    history = train(smollm2, tmp_path / "run", max_steps=2, learning_rate=1e-3, **lora, **lengths)
    assert_sampler_is_policy(history, 2)
    assert all(row["completions/mean_length"] > 0 for row in history)
