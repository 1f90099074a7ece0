"""Language models, behind an endpoint or in this process (`transformers_model`, which imports torch)."""

from trl_mle.models.endpoint import EndpointModel
from trl_mle.models.language_model import Completion, LanguageModel, LanguageModelError, Prompt


__all__ = ["Completion", "EndpointModel", "LanguageModel", "LanguageModelError", "Prompt"]
