"""What was found: the pool that improve prompts are made from, and the best solution of each competition."""

from trl_mle.solutions.best_solutions import BestSolutions
from trl_mle.solutions.pool import Solution, SolutionPool


__all__ = ["BestSolutions", "Solution", "SolutionPool"]
