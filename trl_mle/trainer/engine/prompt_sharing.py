"""The tokens of a prompt, computed once for all completions of a group: log-probabilities and gradients are the same
up to rounding."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from trl import GRPOTrainer

from trl_mle.models.shared_prompts import call_shared, check_shareable, shared_prefill


def check_sharing(trainer: GRPOTrainer) -> None:
    """Raises `ValueError` if the prompts of a policy cannot be shared."""
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled or trainer.aux_loss_enabled:
        raise ValueError("share_prompts does not go with DeepSpeed, FSDP and an auxiliary loss: leave it out")
    check_shareable(_decoder(trainer, trainer.model))


def sampling(trainer: Any) -> AbstractContextManager[Any]:
    """Context in which transformers samples with shared prompts, if asked to; other engines do so anyway."""
    if not trainer.args.share_prompts or trainer.use_vllm or trainer.use_transformers_continuous_batching:
        return nullcontext()
    return shared_prefill(_decoder(trainer, trainer.model_wrapped))


def training(
    trainer: GRPOTrainer, model: Any, input_ids: torch.Tensor, mask: torch.Tensor, logits_to_keep: int
) -> Any:
    """The model, with shared prompts, for inputs that end in as many tokens of completions."""
    # The prompt's last token stays with the completion, whose first token it predicts
    length = input_ids.shape[1] - logits_to_keep - 1
    return partial(call_shared, model, _decoder(trainer, model), length) if length else model


def _decoder(trainer: GRPOTrainer, model: Any) -> Any:
    return trainer.accelerator.unwrap_model(model).get_decoder()
