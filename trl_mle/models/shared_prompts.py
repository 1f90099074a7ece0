"""Computes the prompt that several rows of a batch share only once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import recursively_apply
from transformers import Cache, DynamicCache, PreTrainedModel, StaticCache


class SharedPrompts:
    """
    Calls a causal language model on rows of which several share a prompt. Each prompt is computed once, and its keys and values,
    with their gradients, serve all of its rows.

    Args:
        model:
            Model to call, as prepared for training.
        decoder ([`~transformers.PreTrainedModel`]):
            Its layers without the language modeling head.
        length (`int`):
            Number of tokens, with padding, of each row's prompt.
    """

    def __init__(self, model: Any, decoder: PreTrainedModel, length: int) -> None:
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


@contextmanager
def shared_prefill(decoder: PreTrainedModel) -> Iterator[None]:
    """
    Context in which `generate` computes each prompt of its batch once. After it, a model in bfloat16 on a CPU attends with plain
    matrix products: torch's fused attention takes several times as long for one token.
    """
    forward, attention = decoder.forward, decoder.config._attn_implementation
    is_slow = decoder.device.type == "cpu" and decoder.dtype == torch.bfloat16

    def prefill_once(
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        **kwargs: Any,
    ) -> Any:
        cache: Any = next(value for value in kwargs.values() if isinstance(value, Cache))  # its name is changing
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        if cache.get_seq_length():
            return forward(**inputs, **kwargs)
        first, prompt_of_row = _prompts(input_ids)
        # Masks may be in a dictionary, by kind of layer
        inputs = recursively_apply(lambda values: values[first], inputs)
        output = forward(**inputs, **kwargs)
        if is_slow:
            decoder.set_attn_implementation("eager")
        if isinstance(cache, StaticCache):  # it has no `batch_select_indices`
            layers: Any = cache.layers
            for layer in layers:
                layer.keys, layer.values = layer.keys[prompt_of_row], layer.values[prompt_of_row]
        else:
            cache.batch_select_indices(prompt_of_row)
        # Only the last token predicts the first of the completion. A slice of all, as the head takes it, is not contiguous: torch then
        # copies the head's weights for each row, which took most of the time of sampling
        output.last_hidden_state = output.last_hidden_state[prompt_of_row, -1:]
        return output

    decoder.forward = prefill_once
    try:
        yield
    finally:
        decoder.forward = forward
        if is_slow:
            decoder.set_attn_implementation(attention)


def _prompts(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row of each prompt in `ids` of shape (rows, tokens), and the number of each row's prompt."""
    prompts, prompt_of_row = torch.unique(ids, dim=0, return_inverse=True)
    numbers = torch.arange(len(prompts), device=ids.device)
    return (prompt_of_row == numbers[:, None]).int().argmax(dim=1), prompt_of_row
