"""The policy's base model as the frozen language model of [`LmInstrumenter`]."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trl_mle import models
from trl_mle.models import Completion, LanguageModelError


if TYPE_CHECKING:
    import torch


class HasBaseModel(Protocol):
    """The part of [`~trl_mle.trainer.MLEGRPOTrainer`] that [`PolicyBaseModel`] needs."""

    @property
    def is_zero3(self) -> bool:
        """Whether DeepSpeed shards the weights over the processes."""

    def check_base_model(self) -> None:
        """Raises [`LanguageModelError`] if the policy has no usable base model."""

    def complete_with_base_model(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """Answers prompts greedily with the base model. A collective operation."""

    def base_weights(self) -> "dict[str, torch.Tensor]":
        """The base model's weights in this process, by name."""


class PolicyBaseModel:
    """
    The original model of the policy being trained: with LoRA, the policy with its adapter disabled; with `beta > 0`, the
    reference model. The trainer is created after the reward that uses this model, so it is bound later. All processes must
    call `complete` equally often, from their main threads, because it may gather weights.
    """

    identity = "the policy's base model"

    def __init__(self) -> None:
        self._trainer: HasBaseModel | None = None
        self.digests: dict[str, str] | None = None

    def bind(self, trainer: HasBaseModel, mode: str = "quote") -> None:
        """
        Binds the trainer whose policy's base model answers, before it trains. Raises [`LanguageModelError`] if there is
        no base model, or if it cannot answer in this mode of [`LmInstrumenter`].
        """
        trainer.check_base_model()
        if mode == "rewrite" and trainer.is_zero3:
            raise LanguageModelError(
                "under ZeRO-3 all processes would wait for the longest rewritten program, with all weights gathered: "
                "use mode 'quote', or give the instrumenter an endpoint or a model"
            )
        self._trainer = trainer

    def complete(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """See [`LanguageModel`]."""
        if self._trainer is None:
            raise LanguageModelError("the policy's base model answers only in training: bind the trainer")
        self.fingerprint()
        return self._trainer.complete_with_base_model(prompts, max_tokens)

    def fingerprint(self) -> str:
        """See [`LanguageModel`]. If weights are sharded, each process has its own fingerprint."""
        if self.digests is None:  # now, because preparing the model for training may cast and shard its weights
            self.digests = self._digest_weights()
        return hashlib.sha256(json.dumps(self.digests, sort_keys=True).encode()).hexdigest()

    def check_frozen(self) -> None:
        """Raises [`LanguageModelError`] if weights have changed since the first answer."""
        if self._trainer is None or self.digests is None:  # it was never used
            return
        now = self._digest_weights()
        changed = [name for name, digest in self.digests.items() if now[name] != digest]
        if changed:
            raise LanguageModelError(
                f"{len(changed)} of {len(now)} weights of the policy's base model have changed in training, {changed[0]} among them"
            )

    def _digest_weights(self) -> dict[str, str]:
        assert self._trainer is not None
        return {name: models.weights_digest({name: weight}) for name, weight in self._trainer.base_weights().items()}
