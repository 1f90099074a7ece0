"""The milestones of a program, the prints that mark them, and finding them in its output."""

import ast
import io
import re
import warnings
from dataclasses import dataclass


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


def parse(source: str) -> ast.Module:
    """The program's AST, as if it were read from a file (which may begin with a byte order mark)."""
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
    A program with prints that mark the milestones it reaches (https://huggingface.co/papers/2509.01684).

    Every print is a line of its own: `source` without the lines `inserted_lines` is `original`, line by line. The
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
            code can find it and print markers of steps that it has but does not reach; that is worth at most the
            partial credit of a failure, which stays below every valid submission.
    """

    source: str
    original: str
    milestones: tuple[str, ...]
    nonce: str

    @property
    def inserted_lines(self) -> tuple[int, ...]:
        """Line numbers, from 1 and in ascending order, of the prints in `source`."""
        prints = {marker_print(self.nonce, milestone) for milestone in self.milestones}
        return tuple(number for number, line in enumerate(split_lines(self.source), 1) if line.strip() in prints)

    def reached(self, output: str) -> set[str]:
        """
        The milestones whose markers are in the output. A marker may stand in the middle of a line: the program may
        have printed without a newline before it.
        """
        found = re.findall(rf"{re.escape(self.nonce)} milestone: (\w+)", output)
        return {milestone for milestone in self.milestones if milestone in found}
