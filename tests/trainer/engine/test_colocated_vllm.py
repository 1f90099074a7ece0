"""Training with vLLM in the same process: its seeds, and what it refuses. With a real one, on a CPU: `make test-vllm`."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from accelerate.utils import set_seed
from support import colocated_runs, vllm_on_cpu
from support.toy_trainer import make_trainer

from trl_mle.trainer.engine.vllm import sampling_seed


class StandIn:
    """
    Replaces TRL's vLLM, which needs a GPU or its own environment. When it starts, it seeds all generators, as vLLM does,
    and then samples from torch's.
    """

    def __init__(self, accelerator, tensor_parallel_size, max_completion_length, **options):
        set_seed(accelerator.process_index // tensor_parallel_size)
        self.length = max_completion_length

    def sync_weights(self):
        pass

    def generate(self, prompts, **options):
        completion_ids = torch.randint(3, 200, (len(prompts), self.length)).tolist()
        return prompts, completion_ids, [[[-5.0]] * self.length for _ in prompts], None


@pytest.fixture
def sample(monkeypatch, tiny_model, tmp_path):
    """Returns the samples of a run of two steps, or of one that resumes after the first."""
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", StandIn)

    def run(seed, resume=False):
        sampled = []

        def reward(completion_ids, **kwargs):
            sampled.append(completion_ids)
            return [sum(ids) % 11 / 10 for ids in completion_ids]

        config = {"use_vllm": True, "max_steps": 2, "save_strategy": "steps", "save_steps": 1, "seed": seed}
        trainer = make_trainer(tiny_model, tmp_path, reward, **config)
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1") if resume else None)
        return sampled

    return run


def test_seed_decides_what_is_sampled(sample):
    zero, one, again, resumed = sample(0), sample(1), sample(1), sample(1, resume=True)
    assert zero[0] != one[0]
    assert again == one
    assert resumed == one[1:]


@pytest.mark.parametrize(("processes", "tensor_parallel_size"), [(1, 1), (8, 1), (8, 2), (8, 8)])
def test_no_two_engines_sample_the_same(processes, tensor_parallel_size):
    seeds = [
        [sampling_seed(seed, process, processes, tensor_parallel_size) for process in range(processes)]
        for seed in (0, 1, 2, 42, 2**32 - 1)
    ]
    for row in seeds:  # processes that share an engine must have the same seed, or would choose different tokens
        assert row == [row[i - i % tensor_parallel_size] for i in range(processes)]
    assert len({seed for row in seeds for seed in row}) == len(seeds) * processes // tensor_parallel_size
    assert all(0 <= seed < 2**32 for row in seeds for seed in row)


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_seed_decides_what_vllm_samples_and_updates_reach_it(solution_model, tmp_path):
    runs = {
        "zero": {"seed": 0},
        "one": {"seed": 1},
        "one again": {"seed": 1},
        "resumed": {"seed": 1, "resumed": "one"},
    }
    command = [
        os.environ["VLLM_PYTHON"],
        colocated_runs.__file__,
        solution_model.path,
        str(tmp_path),
        json.dumps(runs),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= vllm_on_cpu.ENVIRONMENT
    environment["PYTHONPATH"] = os.pathsep.join(map(str, Path(colocated_runs.__file__).parents[1:3]))
    process = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text())
    sampled = {name: steps for name, (steps, _) in results.items()}
    assert [len(steps) for steps in sampled.values()] == [2, 2, 2, 1]
    assert sampled["zero"][0] != sampled["one"][0]
    assert sampled["one again"] == sampled["one"]
    assert sampled["resumed"] == sampled["one"][1:]
    for _, answers in results.values():
        assert answers["after"] == answers["transformers"]
    assert any(
        answers["before"] != answers["transformers"] for _, answers in results.values()
    )  # an update changes them
