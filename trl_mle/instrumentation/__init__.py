"""A program in, the same program with milestone prints out (https://huggingface.co/papers/2509.01684)."""

from .ast_instrumenter import AstInstrumenter
from .insert import insert_prints
from .milestones import DESCRIPTIONS, MILESTONES, InstrumentedProgram
from .verify import VerificationError, verify


__all__ = [
    "DESCRIPTIONS",
    "MILESTONES",
    "AstInstrumenter",
    "InstrumentedProgram",
    "VerificationError",
    "insert_prints",
    "verify",
]
