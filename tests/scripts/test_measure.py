"""The speed of a pretrained model on this machine, and the sizes that it can do."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from trl_mle.launching import check_model, make_parser
from trl_mle.scripts import measure as module
from trl_mle.scripts.measure import Measurement, check_memory, check_trainable
from trl_mle.shipped import find_recipe


@pytest.fixture(scope="module")
def measurement(program_model):
    return Measurement(str(program_model), "wine")


def test_a_fast_model_gets_the_largest_sizes(measurement):
    sizes = measurement.sizes()
    assert (sizes.num_generations, sizes.max_completion_length, sizes.max_steps) == (64, 320, 24)
    assert 0 < sizes.prefill_s < 60
    assert 0 < sizes.token_s < 1
    assert 0 < sizes.train_s < 0.1
    assert sizes.step_s < module.STEP_S
    assert not sizes.on_gpu


def test_a_slow_model_gets_the_smallest_sizes(measurement, monkeypatch):
    monkeypatch.setattr(module, "STEP_S", 0.0)
    sizes = measurement.sizes()
    assert (sizes.num_generations, sizes.max_completion_length) == (8, 192)


def test_sizes_in_between(measurement, monkeypatch):
    """More programs are tried only if twice the time is allowed, and kept only if they take less than allowed."""
    tried = []

    def sampling(programs):
        tried.append(programs)
        return {8: 10.0, 16: 20.0, 32: 500.0}[programs], 0.1

    monkeypatch.setattr(measurement, "sampling", sampling)
    monkeypatch.setattr(measurement, "training", lambda tokens: 0.001)
    assert measurement.sizes().num_generations == 16
    assert tried == [8, 16, 32]


def test_the_recipe_takes_the_options(measurement, monkeypatch):
    monkeypatch.setattr(module, "STEP_S", 0.0)
    options = list(map(str, measurement.sizes().training_options()))
    assert options[:2] == ["--accelerate_config", "cpu"]
    _, args, model_args = make_parser().parse_args_and_config(
        ["--config", str(find_recipe(module.RECIPE)), *options[2:]]
    )
    assert (args.generation_batch_size, args.per_device_train_batch_size, args.max_at_k) == (8, 4, 4)
    assert args.begin_program
    check_model(args, model_args)


@pytest.mark.parametrize(("is_faster", "dtype"), [(False, "float32"), (True, "bfloat16")])
def test_the_weights_have_the_type_that_the_cpu_is_faster_with(program_model, monkeypatch, is_faster, dtype):
    monkeypatch.setattr(module, "is_bfloat16_faster", lambda: is_faster)
    assert Measurement(str(program_model), "wine").sizes().dtype == dtype


@pytest.mark.pretrained
def test_a_pretrained_model_is_measured(smollm2, monkeypatch):
    monkeypatch.setattr(module, "PROGRAMS", (2, 2))
    monkeypatch.setattr(module, "TOKENS", (8, 8))
    sizes = Measurement(str(smollm2), "digits").sizes()
    assert sizes.num_generations == 2
    assert 300 < sizes.prompt_tokens < 1000
    assert 0 < sizes.token_s < sizes.prefill_s  # a prompt has hundreds of tokens
    assert 0 < sizes.train_s < sizes.token_s


def test_a_model_that_is_too_large(program_model, monkeypatch):
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: SimpleNamespace(available=2e9))
    with pytest.raises(
        ValueError, match=r"has [\d,]+ weights, and training it takes some 3 GB of memory: 2 GB are free"
    ):
        check_memory(str(program_model), on_gpu=False)


def test_what_cannot_be_trained_is_refused(program_model, tmp_path):
    model = Path(shutil.copytree(program_model, tmp_path / "model"))
    check_trainable(str(model))
    (model / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match="has no chat template: use an instruction-tuned model"):
        check_trainable(str(model))
    with pytest.raises(OSError, match="cannot load the policy outputs/no/model"):
        check_trainable("outputs/no/model")
    with pytest.raises(ValueError, match="is an endpoint, which cannot be trained"):
        check_trainable("http://localhost:8000/v1")


def test_an_adapter_is_refused(program_model, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(program_model)
    adapter = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))
    adapter.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is an adapter: name a model"):
        check_trainable(str(tmp_path))
