"""What a policy is worth, in figures, tables and pictures."""

from trl_mle.evaluation.learning_curves import plot_learning_curves
from trl_mle.evaluation.sampling import (
    Summary,
    best_evaluation,
    evaluate_policy,
    sample_completions,
    save_evaluations,
    summarize,
)


__all__ = [
    "Summary",
    "best_evaluation",
    "evaluate_policy",
    "plot_learning_curves",
    "sample_completions",
    "save_evaluations",
    "summarize",
]
