"""A completion in, its reward (and how it came about) out."""

from trl_mle.rewards.mle_reward import Evaluation, MLEReward


__all__ = ["Evaluation", "MLEReward"]
