import json

import pytest
import torch
from support import base_model, forked
from support.base_model import LORA, PROMPTS, TOKENS, greedy, make_args, make_trainer, original_answers
from support.checkpointing import checkpointing_of
from support.launch import launch

from trl_mle.instrumentation import LanguageModelError, LmInstrumenter, PolicyBaseModel


@pytest.fixture(scope="module")
def original(tiny_model):
    """Answers of the model before training."""
    return original_answers(tiny_model)


def answers(trainer, prompts=PROMPTS):
    return [completion.text for completion in trainer.complete_with_base_model(prompts, TOKENS)]


def policys_answers(trainer):
    model, training = trainer.accelerator.unwrap_model(trainer.model), trainer.model.training
    model.eval()
    texts = [greedy(model, trainer.processing_class, prompt) for prompt in PROMPTS]
    model.train(training)
    return texts


@pytest.mark.parametrize("training", [True, False])
def test_base_of_a_lora_policy(tiny_model, tmp_path, original, training):
    trainer = make_trainer(tiny_model, make_args(tmp_path), peft_config=LORA)
    trainer.model.train(training)
    before, state = policys_answers(trainer), torch.get_rng_state()
    assert before != original
    assert answers(trainer) == original
    assert answers(trainer, []) == []
    assert policys_answers(trainer) == before  # the adapter is active again
    assert all(weight.requires_grad for name, weight in trainer.model.named_parameters() if "lora" in name)
    assert {module.training for module in trainer.model.modules()} == {training}
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("peft_config", [LORA, None], ids=["lora", "reference model"])
def test_base_stays_while_the_policy_learns(tiny_model, tmp_path, original, peft_config):
    base = PolicyBaseModel()
    instrumenter = LmInstrumenter(base)
    trainer = make_trainer(tiny_model, make_args(tmp_path, beta=0.1), instrumenter, peft_config)
    base.bind(trainer, "rewrite")
    before = policys_answers(trainer)
    trainer.train()
    assert policys_answers(trainer) != before
    assert answers(trainer) == original
    logged = [log for log in trainer.state.log_history if "mle/instrumenter/tokens_per_program" in log]
    assert len(logged) == 3
    assert all(log["mle/instrumenter/tokens_per_program"] > 0 for log in logged)

    base.check_frozen()
    next(iter(trainer.base_weights().values())).data.view(-1)[0] += 1e-3
    with pytest.raises(LanguageModelError, match=r"^1 of \d+ weights of the policy's base model have changed"):
        base.check_frozen()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_stays_as_asked(tiny_model, tmp_path, use_reentrant):
    config = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": use_reentrant}}
    base = PolicyBaseModel()
    trainer = make_trainer(tiny_model, make_args(tmp_path, max_steps=2, **config), LmInstrumenter(base), LORA)
    base.bind(trainer)
    seen, as_asked = checkpointing_of(trainer)
    assert seen == as_asked
    assert base.digests is not None  # it has answered


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "there is no base model to instrument with"),
        ({"beta": 0.1, "sync_ref_model": True}, "the reference model follows the policy"),
    ],
)
def test_no_base_model(tiny_model, tmp_path, config, message):
    trainer = make_trainer(tiny_model, make_args(tmp_path, **config))
    for ask in (PolicyBaseModel().bind, trainer.__class__.base_weights):
        with pytest.raises(LanguageModelError, match=message):
            ask(trainer)
    with pytest.raises(LanguageModelError, match=message):
        answers(trainer)


def test_base_model_is_bound_first():
    model = PolicyBaseModel()
    with pytest.raises(LanguageModelError, match="bind the trainer"):
        model.complete([], TOKENS)
    model.check_frozen()  # it has not answered anything


@pytest.mark.parametrize(
    "zero_stage",
    [
        pytest.param(0, id="ddp", marks=pytest.mark.slow),
        pytest.param(3, id="zero3", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_two_processes_one_without_programs(tiny_model, tmp_path, original, zero_stage):
    if zero_stage:
        # A deadlock lasts forever; DeepSpeed compiles an op at its first use on a machine, for minutes on one core
        status, output = launch(
            base_model.__file__, [tiny_model, str(tmp_path)], tmp_path, zero_stage=zero_stage, timeout_s=540
        )
        assert all((tmp_path / f"{rank}.json").exists() for rank in range(2)), (status, output[-3000:])
    else:
        started = forked.start(base_model.main, (tiny_model, str(tmp_path)), tmp_path / "run")
        forked.finish(started, tmp_path, timeout_s=120)
    for rank in range(2):
        results = json.loads((tmp_path / f"{rank}.json").read_text())
        assert results["base"] == (original if rank == 0 else [])
        assert results["own"] == original[rank:]
        assert results["changed"] is None
        assert results["share"] == (0.5 if zero_stage == 3 else 1.0)
        assert "weights of the policy's base model have changed" in results["changed later"]
        assert bool(results["rewrite"]) == (zero_stage == 3)
        if rank == 0:
            assert len(results["tokens"]) == 3
            assert all(tokens > 0 for tokens in results["tokens"])
