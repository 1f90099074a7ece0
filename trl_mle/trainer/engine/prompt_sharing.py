"""The tokens of a prompt, computed once for all completions of a group."""

from typing import Any

import torch
from trl import GRPOTrainer

from trl_mle.models import SharedPrompts, check_shareable, shared_prefill
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
        if self.args.share_prompts:
            check_shareable(self.accelerator.unwrap_model(self.model).get_decoder())

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple:
        if not self.args.share_prompts or self.use_vllm or self.use_transformers_continuous_batching:
            return super()._generate_single_turn(*args, **kwargs)
        with shared_prefill(self.accelerator.unwrap_model(self.model_wrapped).get_decoder()):
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
        # The prompt's last token stays with the completion, whose first token it predicts
        length = input_ids.shape[1] - logits_to_keep - 1
        if self.args.share_prompts and length:
            model = SharedPrompts(model, self.accelerator.unwrap_model(model).get_decoder(), length)
        inputs = input_ids, attention_mask, logits_to_keep
        return super()._get_per_token_logps_and_entropies(model, *inputs, *args, **kwargs)
