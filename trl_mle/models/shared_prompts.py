"""Computes the prompt that several rows of a batch share only once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import recursively_apply
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import LinearAttentionCacheLayerMixin


class SharedPrompts:
    """
    Calls a causal language model on rows of which several share a prompt. Each prompt is computed once, and its keys
    and values, with their gradients, serve all of its rows.

    Args:
        model:
            Model to call, as prepared for training.
        decoder ([`~transformers.PreTrainedModel`]):
            Its layers without the language modeling head.
        length (`int`):
            Number of tokens, with padding, of each row's prompt.

    Raises:
        `ValueError`: See [`check_shareable`].
    """

    def __init__(self, model: Any, decoder: PreTrainedModel, length: int) -> None:
        check_shareable(decoder)
        self.model, self.decoder, self.length = model, decoder, length

    def __call__(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor, **kwargs: Any
    ) -> Any:
        n = self.length
        cache = DynamicCache(config=self.decoder.config)
        first, prompt_of_row = _prompts(input_ids[:, :n])
        self.decoder(
            input_ids=input_ids[first, :n],
            attention_mask=attention_mask[first, :n],
            past_key_values=cache,
            use_cache=True,
        )
        cache.batch_select_indices(prompt_of_row)
        return self.model(
            input_ids=input_ids[:, n:],
            attention_mask=attention_mask,
            past_key_values=cache,
            labels=labels[:, n:],
            **kwargs,
        )


def check_shareable(decoder: PreTrainedModel) -> None:
    """Raises `ValueError` if a model has layers with linear attention, so that training cannot share prompts."""
    if _has_linear_attention(decoder):
        raise ValueError(
            f"share_prompts needs each token's keys and values, and {type(decoder).__name__} has layers with linear "
            "attention: leave it out"
        )


@contextmanager
def shared_prefill(decoder: PreTrainedModel) -> Iterator[None]:
    """
    Context in which `generate` computes each prompt of its batch once, except with linear attention. After it, a model
    in bfloat16 on a CPU attends with plain matrix products: torch's fused attention takes several times as long for
    one token.
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
    """
    Whether layers keep one state of all tokens so far, which gradients do not flow through, in place of keys and
    values.
    """
    layers = DynamicCache(config=decoder.config).layers
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)


def _prompts(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row of each prompt in `ids` of shape (rows, tokens), and the number of each row's prompt."""
    prompts, prompt_of_row = torch.unique(ids, dim=0, return_inverse=True)
    numbers = torch.arange(len(prompts), device=ids.device)
    return (prompt_of_row == numbers[:, None]).int().argmax(dim=1), prompt_of_row
