"""What all language models share: what is asked, what is answered, what can go wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


Prompt = list[dict[str, str]]  # a conversation


class LanguageModelError(ValueError):
    """A language model cannot be used as it is configured: the user's to mend."""


@dataclass(frozen=True)
class Completion:
    """
    What a language model answered.

    Args:
        text (`str` or `None`):
            `None` if no answer came.
        tokens (`int`, *optional*, defaults to `0`):
            Tokens that it generated.
        prompt_tokens (`int`, *optional*, defaults to `0`):
            Tokens that it read, where they are known.
    """

    text: str | None
    tokens: int = 0
    prompt_tokens: int = 0


class LanguageModel(Protocol):
    """Texts in, texts out, in one batch: [`EndpointModel`], [`TransformersModel`]."""

    identity: str  # which model it is, for the log

    def complete(self, prompts: Sequence[str], max_tokens: int, schema: dict | None = None) -> list[Completion]:
        """
        Answers each prompt, a user's message, greedily. It never raises because of a model that does not answer.

        Args:
            prompts (`Sequence[str]`):
                May be empty: where processes must generate together, each calls it all the same.
            max_tokens (`int`):
                Longest answer.
            schema (`dict`, *optional*):
                JSON schema of the answers, for those that can decode by one.
        """
        ...

    def fingerprint(self) -> str:
        """Which model it is, weights and all as far as they can be seen."""
        ...

    def check_frozen(self) -> None:
        """Raises or warns if its weights have changed since it was made, as far as they can be seen."""
        ...
