"""Evaluates policies: samples programs, executes and grades them, and makes tables."""

from trl_mle.evaluation.best_of_k import BestOfK, best_of_k
from trl_mle.evaluation.harness import Harness, NoAnswerError, sample_programs
from trl_mle.evaluation.policies import EndpointPolicy, Policy, TransformersPolicy, load_policy
from trl_mle.evaluation.results import best_program


__all__ = [
    "BestOfK",
    "EndpointPolicy",
    "Harness",
    "NoAnswerError",
    "Policy",
    "TransformersPolicy",
    "best_of_k",
    "best_program",
    "load_policy",
    "sample_programs",
]
