"""Competitions in the form that TRL's trainers take: a dataset, environments, and a reward."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Literal

from datasets import Dataset

from trl_mle.competitions import Competition, TaskSet
from trl_mle.environments.environment import MLEEnvironment, ScoredMLEEnvironment
from trl_mle.execution import Executor
from trl_mle.instrumentation import Instrumenter
from trl_mle.prompts import PromptsWhenRead, agent_prompt
from trl_mle.rewards import Evaluation, MLEReward


class EpisodeReward(MLEReward):
    """Rewards the last program that an agent started, with the total Δt of all."""

    def evaluations(
        self,
        completions: Sequence[Any],
        competition: Sequence[Competition | str] | None = None,
        environments: Sequence[MLEEnvironment] | None = None,
        **kwargs: Any,
    ) -> list[Evaluation]:
        """The evaluations of a batch of episodes, whose environments TRL passes in."""
        if not environments:
            raise ValueError("the trainer passes no environments: give it the spec's environment_factory")
        return [item._episode() for item in environments]


class MLESpec:
    """
    Connects competitions to a TRL trainer, like TRL's `HarborSpec` and `OpenRewardSpec`.

    An agent reads files, starts programs and waits for them; the last program started is graded. [`~trl.GRPOTrainer`]
    trains it, and so does [`~trl_mle.trainer.MLEGRPOTrainer`], with advantages weighted by the total Δt of an
    episode's programs.

    Args:
        competitions ([`~trl_mle.competitions.TaskSet`] or `list[Competition | str]`):
            Competitions, or their ids.
        executor ([`~trl_mle.execution.Executor`], *optional*), instrumenter (*optional*):
            See [`~trl_mle.rewards.MLEReward`].
        max_programs (`int`, *optional*, defaults to `4`):
            Maximum number of programs per episode.
        owns_reward (`bool`, *optional*, defaults to `False`):
            Whether the environments return the reward themselves, as
            [`~trl.experimental.async_grpo.AsyncGRPOTrainer`] needs it.
        **options:
            Options of [`~trl_mle.rewards.MLEReward`].
    """

    def __init__(
        self,
        competitions: TaskSet | Sequence[Competition | str],
        executor: Executor | None = None,
        instrumenter: Instrumenter | Literal["ast"] | None = "ast",
        max_programs: int = 4,
        owns_reward: bool = False,
        **options: Any,
    ):
        self.reward = EpisodeReward(competitions, executor, instrumenter, **options)
        self.reward_funcs = [] if owns_reward else [self.reward]
        environment = ScoredMLEEnvironment if owns_reward else MLEEnvironment
        self.environment_factory = partial(environment, self.reward, max_programs)  # makes one for a rollout
        self._max_programs = max_programs

    @cached_property
    def train_dataset(self) -> Dataset:
        """One row per competition, with the columns `prompt`, made when its row is read, and `competition`."""
        competitions, limits = self.reward.competitions, self.reward.executor.limits
        make = partial(agent_prompt, limits=limits, max_programs=self._max_programs)
        return PromptsWhenRead(competitions, make).dataset(list(competitions))
