"""Records the milestones that the evaluations of a program reach."""

import ast
from collections import Counter
from dataclasses import replace

from trl_mle.instrumentation.milestones import MODEL_BUILT, MODEL_TRAINED, PREDICTIONS, SUBMISSION
from trl_mle.instrumentation.steps.values import NOTHING, Evaluation, Value, derived, is_submission, kinds_of_paths
from trl_mle.instrumentation.steps.vocabulary import DATA, MODEL, TEST, TRAIN, UNKNOWN


class Record:
    """Milestones reached by evaluations of statements, and the current place in the interpreted program."""

    def __init__(self) -> None:
        self.loaded: dict[str, list[Evaluation]] = {TRAIN: [], TEST: []}  # where the data were read
        self.columns_read: dict[str, Evaluation] = {}  # where columns of the data were last read
        self.counts: Counter[str] = Counter()
        self.evaluations: list[Evaluation] = []
        # The current place in the program:
        self.evaluation = Evaluation(ast.Pass(), None, False, [])
        self.parent: Evaluation | None = None
        self.loops: list[Evaluation] = []  # the enclosing loops, outermost first, including callers' loops
        self.first_loop = 0  # the outermost of these that a step in the current place completes
        self.repeats = 0  # enclosing comprehensions, and functions that a library calls
        self.columns: list[Evaluation] = []  # the enclosing loops over the columns of the predictions
        self.returns: list[Evaluation] = []
        self.returned: list[Value] = []
        self.conditional = False
        self.hint = ""  # the variable that the current statement assigns to
        self.call_hint = ""

    def reach(self, milestone: str, *, batch: bool = False) -> None:
        """Records that the current statement, or with `batch` its outermost loop, reaches a milestone."""
        loops = self.loops[self.first_loop :]
        evaluation = loops[0] if batch and loops else self.evaluation
        if milestone == PREDICTIONS and self.columns:
            evaluation = self.columns[0]
        evaluation.milestones.add(milestone)
        self.counts[milestone] += 1
        if milestone in DATA:
            self.loaded[milestone].append(evaluation)

    def complete(self, model: Value) -> Value:
        """Records an addition to an untrained model, which is complete only now."""
        if model.built is None or self.counts[MODEL_TRAINED]:
            return model
        model.built.milestones.discard(MODEL_BUILT)
        return replace(model, built=self.build().built)

    def read_image(self, path: Value) -> Value:
        """Records that an image is read: the data are complete with the last image, not with the table of labels. An
        image that may be either train or test data leaves this open. A single image is an example."""
        kinds = kinds_of_paths(path.texts) or path.data or DATA
        if not self.loops and not self.repeats:
            return Value(tags=frozenset(kinds))
        for kind in kinds:
            if kind in path.data or len(kinds) > 1:
                while self.loaded[kind]:
                    self.loaded[kind].pop().milestones.discard(kind)
        if len(kinds) == 1:
            [kind] = kinds
            self.reach(kind)
        return Value(tags=frozenset(kinds))

    def read_columns(self, path: Value) -> Value:
        """Records that columns are read: the data are complete with the last such call."""
        table = self.read(path)
        for kind in table.data:
            if self.columns_read.get(kind, self.evaluation) is not self.evaluation:
                self.columns_read[kind].milestones.discard(kind)
            self.columns_read[kind] = self.evaluation
        return table

    def read(self, path: Value) -> Value:
        """Records that a file is read. If its path is unknown, the variable's name decides."""
        kinds = kinds_of_paths(path.texts)
        if not kinds and (not path.texts or any(UNKNOWN in text for text in path.texts)):
            kinds = kinds_of_paths([self.hint])
        if len(kinds) == 1:
            [kind] = kinds
            self.reach(kind)
        return Value(tags=frozenset(kinds))

    def write(self, path: Value) -> Value:
        if is_submission(path):
            self.reach(SUBMISSION)
        return NOTHING

    def predict(self, arguments: list[Value], *, batch: bool = False) -> Value:
        """Records a prediction. Predictions on training or validation data are not a milestone."""
        data = derived(arguments)
        if TEST in data.tags or not data.tags:
            self.reach(PREDICTIONS, batch=batch)
        return data

    def build(self) -> Value:
        self.reach(MODEL_BUILT)
        return Value(tags=frozenset({MODEL}), built=self.evaluation)
