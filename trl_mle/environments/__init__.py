"""Competitions as environments for agents, who inspect the data and run programs; the last program counts."""

from trl_mle.environments.environment import MLEEnvironment, ScoredMLEEnvironment
from trl_mle.environments.harbor import export_harbor
from trl_mle.environments.spec import EpisodeReward, MLESpec


__all__ = ["EpisodeReward", "MLEEnvironment", "MLESpec", "ScoredMLEEnvironment", "export_harbor"]
