"""Seeds of training with vLLM in the same process. With a real one: tests/scripts/test_train_with_vllm.py."""

import pytest
import torch
from accelerate.utils import set_seed
from support.toy_trainer import make_trainer

from trl_mle.trainer.engine.vllm import sampling_seed


class StandIn:
    """
    Replaces TRL's vLLM, which needs a GPU or its own environment. When it starts, it seeds all generators, as vLLM
    does, and then samples from torch's.
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
    seeds = {
        (seed, process // tensor_parallel_size, sampling_seed(seed, process, processes, tensor_parallel_size))
        for seed in (0, 1, 2, 42, 2**32 - 1)
        for process in range(processes)
    }
    # Processes that share an engine must have the same seed, or would choose different tokens
    assert len(seeds) == len({sampled for _, _, sampled in seeds}) == 5 * processes // tensor_parallel_size
    assert all(0 <= sampled < 2**32 for _, _, sampled in seeds)
