"""The milestones of a program, the prints that mark them, and finding them in its output."""

import ast
import functools
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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
    """The program's AST, as if it were read from a file (which may begin with a byte order mark). Not to be changed."""
    return ast.parse(source.removeprefix("\ufeff"), filename=FILENAME)


def split_lines(source: str) -> list[str]:
    """
    Lines with their ends, counted as Python counts them: at `\\n`, `\\r\\n` and `\\r`. `str.splitlines` also splits at
    form feeds and others.
    """
    return list(io.StringIO(source, newline=""))


@dataclass(frozen=True)
class InstrumentedProgram:
    """
    A program with prints that mark the milestones it reaches (https://huggingface.co/papers/2509.01684), and report
    shapes and scores that it has computed.

    Every print has lines of its own: `source` without the lines `inserted_lines` is `original`, line by line. The
    executor runs `source` while the file on disk and the tracebacks show `original`.

    Args:
        source (`str`):
            The program with prints.
        original (`str`):
            The program as the policy wrote it.
        milestones (`tuple[str, ...]`):
            The milestones for which a print was placed, in the order of `MILESTONES`.
        nonce (`str`):
            Random text in every marker, unknown to the policy when it writes. A program that inspects its own running
            code (frames, the garbage collector, its memory) can find it and print markers of steps that it has but does
            not reach; that is worth at most 0.7, the partial credit of a failure, and stays below every valid
            submission.
    """

    source: str
    original: str
    milestones: tuple[str, ...]
    nonce: str

    @property
    def inserted_lines(self) -> tuple[int, ...]:
        """Line numbers, from 1 and in ascending order, of the prints in `source`."""
        if not self.nonce:
            return ()
        return tuple(number for number, line in enumerate(split_lines(self.source), 1) if self.nonce in line)

    def reached(self, output: str) -> set[str]:
        """
        The milestones whose markers are in the output. A marker may stand in the middle of a line: the program may
        have printed without a newline before it.
        """
        found = re.findall(rf"{re.escape(self.nonce)} milestone: (\w+)", output)
        return {milestone for milestone in self.milestones if milestone in found}


class Instrumenter(Protocol):
    """A program in, the same program with milestone prints out."""

    def instrument_many(self, sources: Sequence[str]) -> list[InstrumentedProgram]:
        """Places the prints of programs; called once for a batch, in every training process, even for none."""
        ...

    def metrics(self) -> dict[str, float]:
        """What happened since the last call."""
        ...
