"""Computes the prompt that several rows of a batch share only once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import recursively_apply
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import LinearAttentionCacheLayerMixin


def call_shared(
    model: Any,
    decoder: PreTrainedModel,
    length: int,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    labels: torch.Tensor,
    **kwargs: Any,
) -> Any:
    """
    Calls a model, as prepared for training, on rows whose prompts have this length, with padding. Each prompt is
    computed once, by the decoder, and its keys and values, with their gradients, serve all of its rows.
    """
    cache = DynamicCache(config=decoder.config)
    first, prompt_of_row = _prompts(input_ids[:, :length])
    prompts = {"input_ids": input_ids[first, :length], "attention_mask": attention_mask[first, :length]}
    decoder(**prompts, past_key_values=cache, use_cache=True)
    cache.batch_select_indices(prompt_of_row)
    completions, labels = input_ids[:, length:], labels[:, length:]
    return model(input_ids=completions, attention_mask=attention_mask, past_key_values=cache, labels=labels, **kwargs)


def check_shareable(decoder: PreTrainedModel) -> None:
    """Raises `ValueError` if a model has layers with linear attention."""
    if _has_linear_attention(decoder):
        raise ValueError(f"share_prompts: {type(decoder).__name__} has linear attention: leave it out")


@contextmanager
def shared_prefill(decoder: PreTrainedModel) -> Iterator[None]:
    """
    Context in which `generate` computes each prompt of its batch once, except with linear attention. A model in
    bfloat16 on a CPU then attends with plain matrix products: torch's fused attention takes several times as long.
    """
    forward, attention = decoder.forward, decoder.config._attn_implementation
    is_slow = decoder.device.type == "cpu" and decoder.dtype == torch.bfloat16

    def prefill_once(input_ids: torch.Tensor, **kwargs: Any) -> Any:
        caches = (value for value in kwargs.values() if isinstance(value, Cache))  # its name is changing
        cache: Any = next(caches, None)
        if cache is None or cache.get_seq_length():
            return forward(input_ids=input_ids, **kwargs)
        first, prompt_of_row = _prompts(input_ids)
        # Not all models take positions
        rows = {name: kwargs.pop(name) for name in ("attention_mask", "position_ids") if name in kwargs}
        # Masks may be in a dictionary, by kind of layer
        rows = recursively_apply(lambda values: values[first], {"input_ids": input_ids} | rows)
        output = forward(**rows, **kwargs)
        if is_slow:
            decoder.set_attn_implementation("eager")
        cache.reorder_cache(prompt_of_row)
        # Only the last token predicts the first of the completion. A slice of all, as the head takes it, is not
        # contiguous: torch then copies the head's weights for each row, which took most of the time of sampling
        output.last_hidden_state = output.last_hidden_state[prompt_of_row, -1:]
        return output

    if _has_linear_attention(decoder):
        yield
        return
    decoder.forward = prefill_once
    try:
        yield
    finally:
        decoder.forward = forward
        if is_slow:
            decoder.set_attn_implementation(attention)


def _has_linear_attention(decoder: PreTrainedModel) -> bool:
    """Whether layers keep a state of all tokens, which no gradients flow through, in place of keys and values."""
    layers = DynamicCache(config=decoder.config).layers
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)


def _prompts(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row of each prompt in `ids` of shape (rows, tokens), and the number of each row's prompt."""
    prompts, prompt_of_row = torch.unique(ids, dim=0, return_inverse=True)
    numbers = torch.arange(len(prompts), device=ids.device)
    return (prompt_of_row == numbers[:, None]).int().argmax(dim=1), prompt_of_row
