"""The training script with a real vLLM, on a CPU: `make test-vllm`. A run takes a minute on idle cores."""

import json

import pytest
import torch
from safetensors.torch import load_file
from support.faulty_proxy import FaultyProxy
from support.vllm_training import assert_sampler_is_policy, run_script, teach_policy, train, training_server
from transformers import AutoModelForCausalLM


pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

ASYNC = {"vllm_mode": "server", "async_rollouts": "true", "save_strategy": "steps", "save_steps": 1}


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


@pytest.fixture(scope="module")
def server(policy, tmp_path_factory):
    """A server, and the environment of its trainers. Each run starts by sending the server its weights."""
    server, weights, server.environment_of_trainer = training_server(policy, tmp_path_factory.mktemp("server") / "log")
    server.start()
    yield server
    server.kill()
    weights.unlink(missing_ok=True)


def assert_stored_logps_are_of_the_weights_that_sampled(folder, policy, steps):
    """Log-probabilities stored with rollouts in flight are those of the policy that was asked, and of no other."""
    checked, ages = 0, set()
    models = [AutoModelForCausalLM.from_pretrained(policy)]
    models += [AutoModelForCausalLM.from_pretrained(folder / f"checkpoint-{step}") for step in range(1, steps + 1)]
    for step in range(1, steps + 1):
        state = json.loads((folder / f"checkpoint-{step}" / "rollouts.json").read_text())
        for rollout in state["in_flight"]:
            prompt, completion = rollout["prompt_ids"], rollout["completion_ids"]
            with torch.no_grad():
                logits = [model(torch.tensor([prompt + completion])).logits[0] for model in models]
            found = [
                values[len(prompt) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
                for values in logits
            ]
            stored = torch.tensor(rollout["policy_logps"])
            gaps = [(values - stored).abs().max().item() for values in found]
            assert gaps[rollout["step"]] < 1e-4
            ages.add(step - rollout["step"])
            checked += max(gaps) > 1e-3  # so that those of another policy would be noticed
    assert checked > 0
    return ages


def test_improve_prompts(policy, server, tmp_path):
    """Ratios are one, whatever sampling the policy's folder advises."""
    options = {"vllm_mode": "server", "vllm_server_base_url": server.url, "improve_probability": 0.5}
    options |= {"processes": 2, "environment": server.environment_of_trainer}
    history = train(policy, tmp_path / "run", **options)
    assert_sampler_is_policy(history)
    assert any("mle/improve/valid_rate" in row for row in history)


def test_generation_overlaps_training(policy, server, tmp_path):
    options = ASYNC | {"vllm_server_base_url": server.url, "max_steps": 4}
    history = train(policy, tmp_path / "run", processes=2, environment=server.environment_of_trainer, **options)
    assert len(history) == 4
    ages = assert_stored_logps_are_of_the_weights_that_sampled(tmp_path / "run", policy, 4)
    assert 2 in ages  # requested, then a step of training, then executed
    state = json.loads((tmp_path / "run" / "checkpoint-4" / "rollouts.json").read_text())
    assert state["sampled"] == 8 * state["step"] + len(state["in_flight"]) == 4 * 8 + len(state["in_flight"])
    # The next batch has been asked for, and is in flight if it arrived before the programs of this one had ended
    assert len(state["asked"]) in (0, 8)
    assert len(state["asked"]) + len(state["in_flight"]) >= 8
    assert any(row["mle/async/staleness/max"] >= 1 for row in history)


def test_with_one_batch_in_flight_it_is_synchronous_training(policy, server, tmp_path):
    options = {
        "environment": server.environment_of_trainer,
        "vllm_mode": "server",
        "vllm_server_base_url": server.url,
        "generation_kwargs": '{"seed": 5}',
        "duration_weighting": "none",
    }
    whole = train(policy, tmp_path / "sync", **options)
    ahead = train(policy, tmp_path / "async", async_rollouts="true", max_in_flight=8, **options)
    same = "reward", "completions/mean_length", "mle/valid_rate"
    assert [[row[key] for key in same] for row in ahead] == [[row[key] for key in same] for row in whole]
    # The last bit of a server's log-probabilities depends on what it computes together
    for row, other in zip(ahead, whole, strict=True):
        assert row["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
    first, second = (load_file(tmp_path / run / "model.safetensors") for run in ("sync", "async"))
    assert all((weight - second[key]).abs().max() < 1e-3 for key, weight in first.items())  # three steps of 1e-2


def test_a_server_that_fails(policy, server, tmp_path):
    """There is one line and a checkpoint, and nothing is lost."""
    folder, options = tmp_path / "run", ASYNC | {"save_strategy": "no", "max_steps": 4}
    with FaultyProxy(server.url, faulty=4) as proxy:
        options |= {"environment": server.environment_of_trainer}
        code, output = run_script(policy, folder, processes=2, **options, vllm_server_base_url=proxy.url)
    assert code != 0
    line = next(line for line in output.splitlines() if line.startswith("train_mle.py: error: "))
    assert "the vLLM server failed: " in line
    assert "resume_from_checkpoint" in line
    checkpoint = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    state = json.loads((checkpoint / "rollouts.json").read_text())
    assert state["sampled"] == 8 * state["step"] + len(state["in_flight"])
    assert len(state["asked"]) == 8

    options |= {"vllm_server_base_url": server.url, "resume_from_checkpoint": checkpoint}
    resumed = train(policy, folder, **options)  # in one process: transformers 5.17 cannot resume several on CPUs
    assert len(resumed) == 4


def test_a_run_without_a_server_ends_in_one_line(policy, server, tmp_path):
    options = {"vllm_mode": "server", "vllm_server_base_url": "http://127.0.0.1:9", "vllm_server_timeout": 3}
    code, output = run_script(policy, tmp_path / "run", **options)
    assert code != 0
    assert "train_mle.py: error: The vLLM server can't be reached at http://127.0.0.1:9 after 3.0 seconds." in output
