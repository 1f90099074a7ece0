"""Executors that execute nothing; subclasses decide the results."""

from trl_mle.execution import ExecutionResult, Executor, Limits, ProgramFuture
from trl_mle.instrumentation import InstrumentedProgram


# A completion whose program is valid in a real executor
SOLUTION = """Plan: a forest.
```python
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
model = RandomForestClassifier(n_estimators=20, random_state=0)
model.fit(train.drop(columns=["id", "cultivar"]), train["cultivar"])
predictions = model.predict(test.drop(columns=["id"]))
pd.DataFrame({"id": test["id"], "cultivar": predictions}).to_csv("submission.csv", index=False)
```
"""


class FakeExecutor(Executor):
    """A back end without `submit`, which never makes its caller wait."""

    limits = Limits()
    description = "programs are not executed"

    def check(self, competition):
        pass

    def longest_s(self, programs):
        return 0.0

    def close(self):
        pass


class ScriptedExecutor(FakeExecutor):
    """Gives its results in turn."""

    def __init__(self, *results: ExecutionResult):
        self.results = list(results)
        self.submitted = 0

    def submit(self, program, competition) -> ProgramFuture:
        future = ProgramFuture()
        future.set_result(self.results[self.submitted])
        self.submitted += 1
        return future


class CountingExecutor(FakeExecutor):
    """Passes programs on and records their sources; after `limit` of them it raises KeyboardInterrupt."""

    def __init__(self, executor, limit=None):
        self.executor, self.limit, self.sources = executor, limit, []

    def submit(self, program, competition):
        if len(self.sources) == self.limit:
            raise KeyboardInterrupt
        self.sources.append(program.original if isinstance(program, InstrumentedProgram) else program)
        return self.executor.submit(program, competition)
