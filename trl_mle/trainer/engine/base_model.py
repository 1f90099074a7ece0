"""The policy's base model, which may instrument the policy's programs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import DistributedType, is_peft_model
from trl import GRPOTrainer
from trl.distributed import DistributedBackend
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import use_adapter

from trl_mle.models import Completion, LanguageModelError, generate
from trl_mle.prompts import NO_THOUGHTS
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


if TYPE_CHECKING:
    from transformers import PreTrainedModel


class BaseModelTrainer(GRPOTrainer):
    """[`~trl.GRPOTrainer`] whose base model can answer prompts between two steps."""

    args: MLEGRPOConfig
    model: "PreTrainedModel"

    @contextmanager
    def model_for_generation(self, model: Any) -> Iterator[Any]:
        """The policy or its reference model, whole and in evaluation mode; afterwards it is as it was."""
        checkpointing: Any = self.args.gradient_checkpointing_kwargs  # a dictionary, once it was parsed
        with unwrap_model_for_generation(
            model, self.accelerator, gradient_checkpointing_kwargs=checkpointing
        ) as unwrapped:
            training = unwrapped.training
            unwrapped.eval()
            yield unwrapped
            unwrapped.train(training)

    def complete_with_base_model(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """
        Answers user messages greedily with the base model: the reference model (`beta > 0`), or a LoRA policy with its adapter
        disabled. Random generators are not affected.

        A collective operation, called from the main threads, possibly without prompts: under ZeRO-3 the weights are gathered.
        Raises `LanguageModelError` if there is no base model, because all weights are trained and `beta` is 0.
        """
        self.check_base_model()
        model = self.ref_model if self.ref_model is not None else self.model_wrapped
        devices = [self.accelerator.device] if self.accelerator.device.type == "cuda" else []
        with (
            torch.random.fork_rng(devices),
            self.model_for_generation(model) as unwrapped,
            use_adapter(unwrapped, None) if is_peft_model(unwrapped) else nullcontext(),
        ):
            return generate(unwrapped, self.processing_class, prompts, max_tokens, chat_template_kwargs=NO_THOUGHTS)

    def base_weights(self) -> dict[str, torch.Tensor]:
        """The weights of that model in this process, by name; under ZeRO-3 this process's part of each."""
        self.check_base_model()
        weights: dict[str, Any]
        if self.ref_model is not None:
            weights = dict(self.ref_model.named_parameters())
        else:
            weights = {name: weight for name, weight in self.model.named_parameters() if not weight.requires_grad}
        return {name: weight.ds_tensor for name, weight in weights.items()} if self.is_zero3 else weights

    @property
    def is_zero3(self) -> bool:
        """Whether DeepSpeed has split the weights over the processes."""
        return DistributedBackend(self.accelerator).is_zero3

    def check_base_model(self) -> None:
        """Raises `LanguageModelError` if [`complete_with_base_model`] cannot answer, or not by what training started from."""
        if self.accelerator.distributed_type == DistributedType.FSDP:
            raise LanguageModelError(
                "under FSDP the policy's base model cannot instrument: set an endpoint or a model"
            )
        if self.args.sync_ref_model:
            raise LanguageModelError(
                "with sync_ref_model the reference model follows the policy: give the instrumenter an endpoint or a model"
            )
        if self.ref_model is None and not is_peft_model(self.accelerator.unwrap_model(self.model)):
            raise LanguageModelError(
                "there is no base model to instrument with: train with LoRA (use_peft) or beta > 0, or give an endpoint "
                "or a model of its own"
            )
