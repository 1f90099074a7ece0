"""The frozen language model of [`LmInstrumenter`] where it is the base of the policy that is trained."""

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

import torch

from trl_mle.models import Completion, LanguageModelError, weights_digest


class BaseModelTrainer(Protocol):
    """What [`PolicyBaseModel`] needs of a trainer: see [`~trl_mle.trainer.MLEGRPOTrainer`], which has it."""

    @property
    def is_zero3(self) -> bool:
        """Whether DeepSpeed has split the weights over the processes."""
        ...

    def check_base_model(self) -> None:
        """Raises [`LanguageModelError`] if the policy has no base model that could answer."""
        ...

    def complete_with_base_model(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """Answers prompts greedily by the base model; every process calls it at the same time."""
        ...

    def base_weights(self) -> dict[str, torch.Tensor]:
        """The base model's weights in this process, by name."""
        ...


class PolicyBaseModel:
    """
    The original model of the policy that a trainer trains: under a LoRA policy its base, with the adapter disabled, which
    takes no further memory; with `beta > 0` the reference model.

    Every process must call `complete` as often as the others, from its main thread: weights may be gathered for it. The
    trainer is made after the reward that asks the model, so it is bound later.
    """

    identity = "the policy's base model"

    def __init__(self) -> None:
        self._trainer: BaseModelTrainer | None = None
        self.digests: dict[str, str] | None = None

    def bind(self, trainer: BaseModelTrainer, mode: str = "lines") -> None:
        """
        Takes the trainer whose policy's base model answers.

        Args:
            trainer ([`BaseModelTrainer`]):
                The trainer, such as [`~trl_mle.trainer.MLEGRPOTrainer`], before it trains.
            mode (`str`, *optional*, defaults to `"lines"`):
                What the model is asked for, see [`LmInstrumenter`].

        Raises:
            [`LanguageModelError`]: Its policy has no base model, or none that could rewrite programs.
        """
        trainer.check_base_model()
        if mode == "rewrite" and trainer.is_zero3:
            raise LanguageModelError(
                "under ZeRO-3 all processes would wait, with the whole weights gathered, for the longest rewritten program: "
                "take mode 'lines', or give the instrumenter an endpoint or a model"
            )
        self._trainer = trainer

    def complete(self, prompts: Sequence[str], max_tokens: int, schema: dict | None = None) -> list[Completion]:
        """See [`LanguageModel`]. The schema is not used."""
        if self._trainer is None:
            raise LanguageModelError("the policy's base model answers only in training: bind the trainer")
        self.fingerprint()
        return self._trainer.complete_with_base_model(prompts, max_tokens)

    def fingerprint(self) -> str:
        """See [`LanguageModel`]. Where processes split the weights, each has its own."""
        if self.digests is None:  # now, because what prepares the model for training may cast and split its weights
            self.digests = self._digest_weights()
        return hashlib.sha256(json.dumps(self.digests, sort_keys=True).encode()).hexdigest()

    def check_frozen(self) -> None:
        """Raises [`LanguageModelError`] if weights have changed since the first answer."""
        if self._trainer is None or self.digests is None:  # it has never been asked
            return
        now = self._digest_weights()
        changed = [name for name, digest in self.digests.items() if now[name] != digest]
        if changed:
            raise LanguageModelError(
                f"{len(changed)} of {len(now)} weights of the policy's base model have changed in training, {changed[0]} among them"
            )

    def _digest_weights(self) -> dict[str, str]:
        assert self._trainer is not None
        return {name: weights_digest({name: weight}) for name, weight in self._trainer.base_weights().items()}
