"""Milestones of a program, and the prints that mark them."""

import ast
from collections.abc import Sequence
from typing import Protocol

from trl_mle.execution.program import InstrumentedProgram


DESCRIPTIONS = {
    "imports": "packages imported",
    "train_data": "training data loaded",
    "test_data": "test data loaded",
    "model_built": "model built",
    "model_trained": "model trained",
    "predictions": "predictions made",
    "submission": "submission written",
}
MILESTONES = tuple(DESCRIPTIONS)
IMPORTS, TRAIN_DATA, TEST_DATA, MODEL_BUILT, MODEL_TRAINED, PREDICTIONS, SUBMISSION = MILESTONES


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


def blocks(node: ast.AST) -> list[list[ast.stmt]]:
    fields = [value for _, value in ast.iter_fields(node)]
    return [value for value in fields if isinstance(value, list) and value and isinstance(value[0], ast.stmt)]


def is_future_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


class Instrumenter(Protocol):
    """Inserts milestone prints into programs."""

    def instrument_many(self, sources: Sequence[str]) -> list[InstrumentedProgram]:
        """Places the prints of several programs. Called once a batch in every training process."""

    def metrics(self) -> dict[str, float]:
        """Metrics since the last call."""
