"""A program in, the same program with milestone prints out (https://huggingface.co/papers/2509.01684)."""

from trl_mle.instrumentation.ast_instrumenter import AstInstrumenter
from trl_mle.instrumentation.insert import insert_prints
from trl_mle.instrumentation.milestones import DESCRIPTIONS, MILESTONES, InstrumentedProgram
from trl_mle.instrumentation.verify import VerificationError, verify


__all__ = [
    "DESCRIPTIONS",
    "MILESTONES",
    "AstInstrumenter",
    "InstrumentedProgram",
    "VerificationError",
    "insert_prints",
    "verify",
]
