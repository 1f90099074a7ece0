"""Language models, behind an endpoint or in this process."""

from importlib import import_module
from typing import TYPE_CHECKING

from trl_mle.models.language_model import Completion, LanguageModel, LanguageModelError, Prompt


if TYPE_CHECKING:
    from trl_mle.models.endpoint import EndpointModel
    from trl_mle.models.shared_prompts import SharedPrompts, check_shareable, shared_prefill
    from trl_mle.models.transformers_model import (
        TransformersModel,
        answer_text,
        generate,
        is_bfloat16_faster,
        render_prompt,
        tokenize_prompts,
        weights_digest,
        without_defaults,
    )

__all__ = [
    "Completion",
    "EndpointModel",
    "LanguageModel",
    "LanguageModelError",
    "Prompt",
    "SharedPrompts",
    "TransformersModel",
    "answer_text",
    "check_shareable",
    "generate",
    "is_bfloat16_faster",
    "render_prompt",
    "shared_prefill",
    "tokenize_prompts",
    "weights_digest",
    "without_defaults",
]


def __getattr__(name: str) -> object:
    # Code that only queries an endpoint or reads completions needs no torch
    if name in __all__:
        shared = dict.fromkeys(("SharedPrompts", "check_shareable", "shared_prefill"), "shared_prompts")
        module = ({"EndpointModel": "endpoint"} | shared).get(name, "transformers_model")
        return getattr(import_module(f"trl_mle.models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
