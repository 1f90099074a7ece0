"""Competitions as environments for agents: an agent inspects the data and runs programs, and its last program counts."""

from trl_mle.environments.environment import MLEEnvironment, ScoredMLEEnvironment
from trl_mle.environments.harbor import export_harbor
from trl_mle.environments.spec import EpisodeReward, MLESpec


__all__ = ["EpisodeReward", "MLEEnvironment", "MLESpec", "ScoredMLEEnvironment", "export_harbor"]
