"""
Finds the steps of a machine-learning program by following its data, over abstract values: their kind (a model, an open
file, ...), the data that they derive from, and the paths that they may be. Calls of the program's own functions and loops
over known elements are followed one by one.
"""

from trl_mle.instrumentation.steps.placing import find_steps


__all__ = ["find_steps"]
