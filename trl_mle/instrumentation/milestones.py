"""Milestones of a program, and the prints that mark them."""

import ast
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from trl_mle.execution.program import InstrumentedProgram


IMPORTS = "imports"
TRAIN_DATA = "train_data"
TEST_DATA = "test_data"
MODEL_BUILT = "model_built"
MODEL_TRAINED = "model_trained"
PREDICTIONS = "predictions"
SUBMISSION = "submission"

DESCRIPTIONS = {
    IMPORTS: "packages imported",
    TRAIN_DATA: "training data loaded",
    TEST_DATA: "test data loaded",
    MODEL_BUILT: "model built",
    MODEL_TRAINED: "model trained",
    PREDICTIONS: "predictions made",
    SUBMISSION: "submission written",
}
MILESTONES = tuple(DESCRIPTIONS)


def marker_print(nonce: str, milestone: str) -> str:
    """The statement that marks `milestone` in the output."""
    return f'print("{nonce} milestone: {milestone}", flush=True)'


def dotted(node: ast.AST) -> str:
    """The text of `a` or `a.b`; empty for other expressions."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if base := dotted(value):
            return f"{base}.{name}"
    return ""


def imported_names(node: ast.AST) -> dict[str, str]:
    """The names that an import binds, and the full names of what they stand for."""
    match node:
        case ast.Import(names=aliases):
            bound = {alias.asname or alias.name.split(".")[0]: alias for alias in aliases}
            return {name: alias.name if alias.asname else name for name, alias in bound.items()}
        case ast.ImportFrom(module=module, names=aliases):
            return {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
    return {}


def is_block(value: object) -> TypeGuard[list[ast.stmt]]:
    """Whether a field of a node is a block of statements."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], ast.stmt)


class Instrumenter(Protocol):
    """Inserts milestone prints into programs."""

    def instrument_many(self, sources: Sequence[str]) -> list[InstrumentedProgram]:
        """Places the prints of several programs. Called once a batch in every training process."""

    def metrics(self) -> dict[str, float]:
        """Metrics since the last call."""
