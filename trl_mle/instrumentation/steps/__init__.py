"""
Finding the steps of a machine-learning program by following its data.

The program is interpreted over abstract values: what a value is (a model, an open file, ...), which data it derives
from, which paths it may be. Calls of the program's own functions are followed with their arguments; loops over known
elements are followed element by element. So `load("train.csv")` and `load("test.csv")` are different steps of one
statement, `return pd.read_csv(path)`, and belong to the statements that call `load`.
"""

from trl_mle.instrumentation.steps.placing import find_steps


__all__ = ["find_steps"]
