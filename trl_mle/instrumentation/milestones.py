"""The milestones of a program, and the prints that mark them."""

import ast
import functools
import itertools
import re
import warnings
from collections.abc import Sequence
from typing import Protocol

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

# The largest program that is instrumented: work can grow with the square of its nodes. A solution has hundreds.
MAX_LENGTH, MAX_NODES = 200_000, 10_000

# The compiler names the file in its warnings ("\d" is no escape sequence, ...). They are the policy's, and there
# are thousands of them: they would bury the log of the training run.
FILENAME = "<program>"
warnings.filterwarnings("ignore", module=re.escape(FILENAME))


def marker_print(nonce: str, milestone: str) -> str:
    """The statement that marks `milestone` in the output."""
    return f'print("{nonce} milestone: {milestone}", flush=True)'


def report_lines(nonce: str, value: str) -> tuple[str, str]:
    """
    The statement that prints a value of the program, `train.shape` or `auc`, as two lines. It does nothing if that fails,
    and looks up no name but the value's and `print`.
    """
    return (
        f'try: print("{nonce} report: {value} = %.80s" % ({value},), flush=True)',
        f'except BaseException: "{nonce}"',
    )


@functools.lru_cache(maxsize=4)  # choosing places, checking them and inserting prints all look at the same program
def parse(source: str) -> ast.Module:
    """
    The program's AST, as if it were read from a file (which may begin with a byte order mark). Not to be changed.

    Raises:
        `SyntaxError`, `ValueError`, `RecursionError`, `MemoryError`: It does not compile.
        `ValueError`: It is too large to be looked at: a flat program of a few hundred KB would take minutes.
    """
    if len(source) > MAX_LENGTH:
        raise ValueError(f"the program has more than {MAX_LENGTH} characters")
    tree = ast.parse(source.removeprefix("\ufeff"), filename=FILENAME)
    if next(itertools.islice(ast.walk(tree), MAX_NODES, None), None) is not None:
        raise ValueError(f"the program's syntax tree has more than {MAX_NODES} nodes")
    return tree


class Instrumenter(Protocol):
    """A program in, the same program with milestone prints out."""

    @property
    def identity(self) -> str:
        """What decides where it places prints: its class and settings."""
        ...

    def instrument_many(self, sources: Sequence[str]) -> list[InstrumentedProgram]:
        """Places the prints of programs; called once for a batch, in every training process, even for none."""
        ...

    def metrics(self) -> dict[str, float]:
        """What happened since the last call."""
        ...
