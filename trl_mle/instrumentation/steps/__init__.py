"""
Finds the steps of a machine-learning program by the names of the calls that it makes, and by what is known of their
arguments: what they are (a model, an open file, ...), the data that they derive from, and the paths that they may be.
"""

from trl_mle.instrumentation.steps.placing import find_steps


__all__ = ["find_steps"]
