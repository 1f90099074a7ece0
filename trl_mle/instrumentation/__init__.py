"""Inserts milestone prints into programs (https://huggingface.co/papers/2509.01684)."""

from typing import TYPE_CHECKING

from trl_mle import models
from trl_mle.execution.program import InstrumentedProgram
from trl_mle.instrumentation.ast_instrumenter import AstInstrumenter
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.lm_instrumenter import LmInstrumenter
from trl_mle.instrumentation.milestones import DESCRIPTIONS, MILESTONES, Instrumenter
from trl_mle.instrumentation.verify import VerificationError, verify
from trl_mle.models import Completion, LanguageModel, LanguageModelError


if TYPE_CHECKING:
    from trl_mle.models import EndpointModel, TransformersModel

__all__ = [
    "DESCRIPTIONS",
    "MILESTONES",
    "AstInstrumenter",
    "Completion",
    "EndpointModel",
    "InstrumentedProgram",
    "Instrumenter",
    "LanguageModel",
    "LanguageModelError",
    "LmInstrumenter",
    "TransformersModel",
    "VerificationError",
    "insert_prints",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in ("EndpointModel", "TransformersModel"):  # imported when needed: torch takes seconds
        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
