"""Solutions: the pool for improve prompts, and the best solution of each competition."""

from trl_mle.solutions.best_solutions import BestSolutions
from trl_mle.solutions.pool import Solution, SolutionPool, syntax_tree_id


__all__ = ["BestSolutions", "Solution", "SolutionPool", "syntax_tree_id"]
