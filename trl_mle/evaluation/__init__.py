"""What a policy is worth, in figures, tables and pictures."""

from trl_mle.evaluation.learning_curves import plot_learning_curves
from trl_mle.evaluation.sampling import (
    Policy,
    Summary,
    best_evaluation,
    count_executed,
    evaluate_policy,
    save_evaluations,
    summarize,
)
from trl_mle.evaluation.self_improvement import (
    Improvement,
    improve_each,
    save_improvements,
    summarize_improvements,
    validation_score,
)


__all__ = [
    "Improvement",
    "Policy",
    "Summary",
    "best_evaluation",
    "count_executed",
    "evaluate_policy",
    "improve_each",
    "plot_learning_curves",
    "save_evaluations",
    "save_improvements",
    "summarize",
    "summarize_improvements",
    "validation_score",
]
