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
        text (`str` or `None`):
            The answer; `None` if none was received.
        tokens (`int`, *optional*, defaults to `0`):
            Number of generated tokens.
        prompt_tokens (`int`, *optional*, defaults to `0`):
            Number of prompt tokens, if known.
        error (`str`, *optional*, defaults to `""`):
            Why no answer was received, in one line, if known.
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
        Answers each prompt, a user message, with at most `max_tokens` tokens by greedy decoding. Does not raise if the
        model does not answer. If processes must generate together, each of them calls this, some perhaps without a
        prompt.
        """
        ...
