"""Solutions: the pool for improve prompts, the best solution of each competition, the store of results."""

from trl_mle.solutions.best_solutions import BestSolutions
from trl_mle.solutions.pool import Solution, SolutionPool, syntax_tree_id
from trl_mle.solutions.store import ResultStore, open_results, result_key


__all__ = [
    "BestSolutions",
    "ResultStore",
    "Solution",
    "SolutionPool",
    "open_results",
    "result_key",
    "syntax_tree_id",
]
