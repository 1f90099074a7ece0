"""
Finding the steps of a machine-learning program by following its data.

The program is interpreted over abstract values: the kind of a value (a model, an open file, ...), the data that it
derives from, and the paths that it may be. Calls to the program's own functions are followed with their arguments, and
loops over known elements are followed element by element. So `load("train.csv")` and `load("test.csv")` are different
steps of one statement, `return pd.read_csv(path)`, and belong to the statements that call `load`.
"""

from trl_mle.instrumentation.steps.placing import find_steps


__all__ = ["find_steps"]
