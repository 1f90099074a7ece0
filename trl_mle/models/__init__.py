"""Language models, behind an endpoint or in this process."""

from importlib import import_module
from typing import TYPE_CHECKING

from trl_mle.models.language_model import Completion, LanguageModel, LanguageModelError, Prompt
from trl_mle.models.lookup import is_missing_folder, look_up


if TYPE_CHECKING:
    from trl_mle.models.endpoint import EndpointModel
    from trl_mle.models.shared_prompts import SharedPrompts, shared_prefill
    from trl_mle.models.transformers_model import (
        TransformersModel,
        generate,
        is_bfloat16_faster,
        render_prompt,
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
    "generate",
    "is_bfloat16_faster",
    "is_missing_folder",
    "look_up",
    "render_prompt",
    "shared_prefill",
    "weights_digest",
    "without_defaults",
]


def __getattr__(name: str) -> object:
    # Code that only queries an endpoint or reads completions needs no torch
    if name in __all__:
        modules = {"EndpointModel": "endpoint", "SharedPrompts": "shared_prompts", "shared_prefill": "shared_prompts"}
        module = modules.get(name, "transformers_model")
        return getattr(import_module(f"trl_mle.models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
