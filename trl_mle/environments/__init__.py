"""Competitions as environments of agents: an agent looks at the data, runs programs, and its last one counts."""

from trl_mle.environments.environment import MLEEnvironment, ScoredMLEEnvironment
from trl_mle.environments.spec import EpisodeReward, MLESpec


__all__ = ["EpisodeReward", "MLEEnvironment", "MLESpec", "ScoredMLEEnvironment"]
