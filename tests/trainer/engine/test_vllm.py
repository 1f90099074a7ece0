"""Which weights of a policy with an adapter vLLM gets. `make test-vllm` tests what a real vLLM does with them."""

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from support.toy_trainer import equal
from transformers import AutoModelForCausalLM, set_seed
from trl.distributed import DistributedBackend
from trl.generation.vllm_generation import VLLMGeneration

from trl_mle.trainer.engine.vllm import merged_params


@pytest.fixture
def generation(tiny_model, request):
    """TRL's generation for a 16-bit policy with a non-trivial adapter, without starting vLLM."""
    set_seed(0)
    config = {"r": 4, "target_modules": "all-linear"} | request.param
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(**config))
    for name, param in model.named_parameters():
        if "lora_B" in name:
            param.data.normal_(std=0.1)
    generation = object.__new__(VLLMGeneration)
    generation.model, generation._dist = model, DistributedBackend(Accelerator(cpu=True))
    return generation


def base_weights(model):
    return {name: param.clone() for name, param in model.named_parameters() if "base_layer" in name}


ADAPTERS = {"lora": {}, "dora": {"use_dora": True}, "a trained head": {"modules_to_save": ["lm_head"]}}


@pytest.mark.parametrize("generation", ADAPTERS.values(), ids=ADAPTERS, indirect=True)
def test_they_are_those_of_trl_and_the_base_stays(generation):
    before = base_weights(generation.model)
    first = {name: weight.clone() for name, weight in merged_params(generation)}
    for _ in range(3):
        assert equal(dict(merged_params(generation)), first)
    assert equal(base_weights(generation.model), before)
    trls = {name: weight.clone() for name, weight in VLLMGeneration._iter_named_params(generation)}
    assert equal(trls, first)
    assert not equal(base_weights(generation.model), before)  # therefore ours are merged otherwise
