"""The tokens of a prompt, computed once for all completions of a group."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from accelerate.utils import recursively_apply
from transformers import DynamicCache, PreTrainedModel
from trl import GRPOTrainer

from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


class SharedPromptsTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] that, with `args.share_prompts`, computes each prompt of a batch once: where transformers samples its
    completions, and in each micro-batch of a training step. Log-probabilities and gradients are the same up to rounding.
    """

    args: MLEGRPOConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.args.share_prompts and (self.is_deepspeed_enabled or self.is_fsdp_enabled or self.aux_loss_enabled):
            raise ValueError(
                "share_prompts calls the model's layers twice in a step, which DeepSpeed, FSDP and the auxiliary loss of a mixture of "
                "experts do not support: leave it out"
            )

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple:
        shared = self.args.share_prompts and not self.use_vllm
        decoder = self.accelerator.unwrap_model(self.model_wrapped).get_decoder()
        with shared_prefill(decoder) if shared else nullcontext():
            return super()._generate_single_turn(*args, **kwargs)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple:
        if self.args.share_prompts:
            # The prompt's last token stays with the completion, whose first token it predicts
            length = input_ids.shape[1] - logits_to_keep - 1
            model = SharedPrompts(model, self.accelerator.unwrap_model(model).get_decoder(), length)
        inputs = input_ids, attention_mask, logits_to_keep
        return super()._get_per_token_logps_and_entropies(model, *inputs, *args, **kwargs)


class SharedPrompts:
    """
    Calls a causal language model on rows of which several begin alike: what they begin with is computed once, and its keys and
    values, with their gradients, serve all of these rows.

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
    """Within it, `generate` computes each prompt of its batch once."""
    forward = decoder.forward

    def prefill_once(
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past_key_values: Any,
        **kwargs: Any,
    ) -> Any:
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        if past_key_values.get_seq_length():
            return forward(**inputs, past_key_values=past_key_values, **kwargs)
        first, prompt_of_row = _prompts(input_ids)
        inputs = recursively_apply(
            lambda values: values[first], inputs
        )  # masks may be in a dictionary, by kind of layer
        output = forward(**inputs, past_key_values=past_key_values, **kwargs)
        for layer in past_key_values.layers:  # a static cache has no `batch_select_indices`
            layer.keys, layer.values = layer.keys[prompt_of_row], layer.values[prompt_of_row]
        output.last_hidden_state = output.last_hidden_state[prompt_of_row]
        return output

    decoder.forward = prefill_once
    try:
        yield
    finally:
        decoder.forward = forward


def _prompts(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row of each prompt in `ids` of shape (rows, tokens), and the number of each row's prompt."""
    _, prompt_of_row = torch.unique(ids, dim=0, return_inverse=True)
    rows = torch.arange(len(ids), device=ids.device)
    first = torch.full_like(rows, len(ids)).scatter_reduce(0, prompt_of_row, rows, "amin")
    return first[: prompt_of_row.max() + 1], prompt_of_row
