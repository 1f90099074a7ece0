"""What a policy is worth, in figures and tables."""

from trl_mle.evaluation.best_of_k import BestOfK, best_of_k
from trl_mle.evaluation.evaluation_log import EvaluationLog, Sample
from trl_mle.evaluation.harness import Harness, NoAnswerError
from trl_mle.evaluation.policies import EndpointPolicy, Policy, TransformersPolicy, load_policy
from trl_mle.evaluation.sampling import Summary, best_evaluation, count_executed, evaluate_policy, summarize
from trl_mle.evaluation.self_improvement import (
    Improvement,
    improve_each,
    save_improvements,
    summarize_improvements,
    validation_score,
)
from trl_mle.evaluation.tree_search import search_tree


__all__ = [
    "BestOfK",
    "EndpointPolicy",
    "EvaluationLog",
    "Harness",
    "Improvement",
    "NoAnswerError",
    "Policy",
    "Sample",
    "Summary",
    "TransformersPolicy",
    "best_evaluation",
    "best_of_k",
    "count_executed",
    "evaluate_policy",
    "improve_each",
    "load_policy",
    "save_improvements",
    "search_tree",
    "summarize",
    "summarize_improvements",
    "validation_score",
]
