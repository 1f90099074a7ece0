"""The common interface of language models: prompts, completions, errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


Prompt = list[dict[str, str]]  # a conversation


class LanguageModelError(ValueError):
    """A language model cannot be used as configured. The user must fix it."""


@dataclass(frozen=True)
class Completion:
    """
    A language model's answer.

    Args:
        text (`str` or `None`), error (`str`, *optional*, defaults to `""`):
            The answer, or `None` and, if known, why none was received, in one line.
        tokens, prompt_tokens (`int`, *optional*, defaults to `0`):
            Numbers of generated tokens and, if known, of the prompt's.
    """

    text: str | None
    tokens: int = 0
    prompt_tokens: int = 0
    error: str = ""


class LanguageModel(Protocol):
    """Texts in, texts out, in one batch: [`EndpointModel`], [`TransformersModel`]."""

    identity: str  # names the model in logs

    def complete(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """
        Answers each prompt, a user message, with at most `max_tokens` tokens by greedy decoding. Never raises for lack
        of an answer.
        """
        ...
