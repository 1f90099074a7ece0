"""Computes the reward of a completion, and records how it came about."""

from trl_mle.rewards.evaluation import Evaluation, cut_middle
from trl_mle.rewards.mle_reward import MLEReward, find_reward
from trl_mle.rewards.pending import PendingEvaluation
from trl_mle.rewards.program_log import ProgramLog, Sample
from trl_mle.rewards.program_reward import program_reward
from trl_mle.solutions.best_solutions import BestSolutions


__all__ = [
    "BestSolutions",
    "Evaluation",
    "MLEReward",
    "PendingEvaluation",
    "ProgramLog",
    "Sample",
    "cut_middle",
    "find_reward",
    "program_reward",
]
