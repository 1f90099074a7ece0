"""Finds the steps of a program by the names of its calls, and by what is known of their arguments."""

from trl_mle.instrumentation.steps.placing import find_steps


__all__ = ["find_steps"]
