from contextlib import nullcontext

import pytest
import torch
from peft import LoraConfig
from support.toy_trainer import make_trainer, text_reward
from transformers import AutoConfig, AutoModelForCausalLM

from trl_mle.models.shared_prompts import check_shareable, shared_prefill


LENGTH = 5  # tokens of a completion


def logps_and_gradients(trainer, rows):
    """Of completions to prompts of different lengths, padded on the left as TRL does."""
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(3, 200, (3, 12), generator=generator)[rows]
    completions = torch.randint(3, 200, (len(rows), LENGTH), generator=generator)
    mask = torch.ones(len(rows), 12 + LENGTH, dtype=torch.long)
    mask[torch.tensor(rows) == 1, :4] = 0
    mask[0, -2:] = 0  # a shorter completion
    model = trainer.model.eval()
    model.zero_grad()
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
        model, torch.cat([prompts, completions], dim=1), mask, LENGTH, compute_entropy=True
    )
    (logps * mask[:, -LENGTH:]).sum().backward()
    gradients = {name: weights.grad for name, weights in model.named_parameters() if weights.grad is not None}
    assert gradients
    return logps.detach(), entropies.detach(), gradients


@pytest.mark.parametrize(
    ("rows", "lora"), [([0, 0, 0, 0], False), ([2, 1, 0, 1], True)], ids=["one prompt", "three prompts, an adapter"]
)
def test_shared_prompts_change_nothing(tiny_model, tmp_path, rows, lora):
    """Log-probabilities, entropies and gradients are those of whole rows, and the prompts are computed once."""
    torch.manual_seed(0)
    peft = LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False) if lora else None
    trainer = make_trainer(tiny_model, tmp_path, text_reward, trainer_kwargs={"peft_config": peft})
    whole = logps_and_gradients(trainer, rows)
    sizes = []
    trainer.model.get_decoder().register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    trainer.args.share_prompts = True
    shared = logps_and_gradients(trainer, rows)
    torch.testing.assert_close(shared, whole)
    assert sizes == [(len(set(rows)), 11), (4, LENGTH + 1)]


@pytest.mark.parametrize("cache", [None, "static"])
def test_shared_prompts_sample_the_same(tiny_model, tmp_path, cache):
    """With prompts of different lengths, each computed once."""
    options = {"max_completion_length": 12, "generation_kwargs": {"cache_implementation": cache} if cache else None}
    trainer = make_trainer(tiny_model, tmp_path, text_reward, **options)
    decoder, sizes, copied = trainer.model.get_decoder(), [], []
    # Of rows that are not contiguous, torch's CPU kernels copy the weights for each
    trainer.model.lm_head.register_forward_pre_hook(lambda _, args: copied.append(not args[0].is_contiguous()))
    decoder.layers[0].register_forward_pre_hook(lambda _, args: sizes.append(tuple(args[0].shape[:2])))
    prompts = [list(range(3, 14)), list(range(20, 26)), list(range(3, 14)), list(range(20, 26))]

    def sample():
        torch.manual_seed(0)
        sizes.clear()
        return trainer._generate_single_turn(prompts, None, {}, 4)

    apart = sample()
    assert sizes[0] == (4, 11)
    forward = decoder.forward
    trainer.args.share_prompts = True
    copied.clear()
    assert sample() == apart
    assert copied
    assert not any(copied)
    assert sizes[0] == (2, 11)
    assert sizes[1] == (4, 1)
    assert decoder.forward == forward


LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}


@pytest.mark.parametrize(("kind", "more"), [("qwen3_5_text", LINEAR), ("gemma3_text", {"sliding_window": 4})])
def test_models_of_other_kinds_sample_the_same(kind, more):
    """With linear attention from whole rows, because a layer's state is not the prompt's keys and values."""
    config = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256, "vocab_size": 64}
    config |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    model, sizes = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config, **more)).eval(), []
    ids = torch.randint(3, 64, (3, 9), generator=torch.Generator().manual_seed(0))[[0, 1, 0, 2, 1]]
    mask = torch.ones_like(ids)
    ids[[1, 4], :3] = mask[[1, 4], :3] = 0

    def sample():
        torch.manual_seed(0)
        return model.generate(ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=8, min_new_tokens=8)

    with pytest.raises(ValueError, match="linear attention") if more is LINEAR else nullcontext():
        check_shareable(model.get_decoder())
    apart = sample()
    model.get_input_embeddings().register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    with shared_prefill(model.get_decoder()):
        assert torch.equal(sample(), apart)
    assert sizes == [5 if more is LINEAR else 3, *[5] * 7]
