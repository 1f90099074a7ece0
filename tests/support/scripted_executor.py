"""An executor with given results, and a completion whose program is valid in a real one."""

from support.fake_executor import FakeExecutor
from trl_mle.execution import ExecutionResult, ProgramFuture


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


class ScriptedExecutor(FakeExecutor):
    """Replaces an executor, so that its sandbox can fail on demand."""

    def __init__(self, *results: ExecutionResult):
        self.results = list(results)
        self.submitted = 0

    def submit(self, program, competition) -> ProgramFuture:
        future = ProgramFuture()
        future.set_result(self.results[self.submitted])
        self.submitted += 1
        return future
