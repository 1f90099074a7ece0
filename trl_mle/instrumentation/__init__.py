"""Inserts milestone prints into programs (https://huggingface.co/papers/2509.01684)."""

from trl_mle.execution.program import InstrumentedProgram
from trl_mle.instrumentation.ast_instrumenter import AstInstrumenter
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.lm_instrumenter import LmInstrumenter
from trl_mle.instrumentation.milestones import MILESTONES, Instrumenter
from trl_mle.instrumentation.verify import VerificationError, verify


__all__ = [
    "MILESTONES",
    "AstInstrumenter",
    "InstrumentedProgram",
    "Instrumenter",
    "LmInstrumenter",
    "VerificationError",
    "insert_prints",
    "verify",
]
