"""A program in, the same program with milestone prints out (https://huggingface.co/papers/2509.01684)."""

from typing import TYPE_CHECKING

from trl_mle.execution.program import InstrumentedProgram
from trl_mle.instrumentation.ast_instrumenter import AstInstrumenter
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.milestones import DESCRIPTIONS, MILESTONES, Instrumenter
from trl_mle.instrumentation.verify import VerificationError, verify


if TYPE_CHECKING:
    from trl_mle.instrumentation.language_models import (
        EndpointModel,
        LanguageModelError,
        PolicyBaseModel,
        TransformersModel,
    )
    from trl_mle.instrumentation.lm_instrumenter import Completion, LanguageModel, LmInstrumenter

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
    "PolicyBaseModel",
    "TransformersModel",
    "VerificationError",
    "insert_prints",
    "verify",
]


def __getattr__(name: str) -> object:
    # Torch and what reads completions come only with a language model.
    from importlib import import_module

    if name in __all__:
        for module in ("lm_instrumenter", "language_models"):
            found = import_module(f"trl_mle.instrumentation.{module}")
            if name in vars(found):
                return vars(found)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
