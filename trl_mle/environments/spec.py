"""Competitions as what TRL's trainers take: a dataset, environments, and a reward."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from datasets import Dataset

from trl_mle.competitions import Competition
from trl_mle.environments.environment import MLEEnvironment, ScoredMLEEnvironment
from trl_mle.execution import Executor
from trl_mle.instrumentation import Instrumenter
from trl_mle.prompts import agent_prompt
from trl_mle.rewards import MLEReward


class EpisodeReward(MLEReward):
    """
    An [`~trl_mle.rewards.MLEReward`] of episodes: of the last program that an agent has started, with the Δt of all.
    """

    def __call__(self, *args: Any, environments: Sequence[MLEEnvironment] = (), **kwargs: Any) -> list[float | None]:
        """The rewards of a batch of episodes, whose environments TRL hands over."""
        if not environments:
            raise ValueError("the trainer hands over no environments: give it the spec's environment_factory")
        return super().__call__(*args, **kwargs | {"evaluation": [item._episode() for item in environments]})


class MLESpec:
    """
    One object that wires competitions into a trainer of TRL's, as its `HarborSpec` and `OpenRewardSpec` do with theirs.

    An agent reads files, starts programs and waits for them; the last one that it has started is graded. [`~trl.GRPOTrainer`]
    trains it, and [`~trl_mle.trainer.MLEGRPOTrainer`] does with advantages weighted by Δt, all programs of the episode
    together. [`~trl.experimental.async_grpo.AsyncGRPOTrainer`] gives reward functions no environments: `owns_reward=True` is for it.

    Args:
        competitions (`list[Competition | str]`):
            Competitions, or their ids.
        executor ([`~trl_mle.execution.Executor`]):
            Runs the programs.
        instrumenter ([`~trl_mle.instrumentation.Instrumenter`], *optional*):
            Inserts the milestone prints; without one there is no partial credit.
        max_programs (`int`, *optional*, defaults to `4`):
            Programs in an episode.
        output_chars (`int`, *optional*, defaults to `2000`):
            Characters of a tool's answer.
        owns_reward (`bool`, *optional*, defaults to `False`):
            Whether the environments return the reward themselves (`get_reward`). Nothing else is logged of programs then.
        **options:
            For [`~trl_mle.rewards.MLEReward`].

    Example:

    ```python
    >>> from trl import GRPOConfig, GRPOTrainer
    >>> from trl_mle.environments import MLESpec
    >>> from trl_mle.execution import LocalExecutor

    >>> with LocalExecutor(timeout_s=60) as executor:
    ...     spec = MLESpec(["digits"], executor)
    ...     trainer = GRPOTrainer(
    ...         model="Qwen/Qwen3-0.6B",
    ...         args=GRPOConfig(max_completion_length=4096, max_tool_calling_iterations=8),
    ...         train_dataset=spec.train_dataset,
    ...         environment_factory=spec.environment_factory,
    ...         reward_funcs=spec.reward_funcs,
    ...     )
    ...     trainer.train()
    ```
    """

    def __init__(
        self,
        competitions: Sequence[Competition | str],
        executor: Executor,
        instrumenter: Instrumenter | None = None,
        max_programs: int = 4,
        output_chars: int = 2000,
        owns_reward: bool = False,
        **options: Any,
    ):
        if max_programs < 1:
            raise ValueError(f"max_programs must be at least 1, got {max_programs}")
        self.reward = EpisodeReward(competitions, executor, instrumenter, **options)
        self._max_programs = max_programs
        self._environment = partial(
            ScoredMLEEnvironment if owns_reward else MLEEnvironment, self.reward, max_programs, output_chars
        )
        self._owns_reward = owns_reward

    @cached_property
    def train_dataset(self) -> Dataset:
        """A row for each competition, with the columns `prompt` (a conversation) and `competition` (its id)."""
        competitions = self.reward.competitions
        limits = self.reward.executor.limits
        return Dataset.from_dict(
            {
                "prompt": [
                    agent_prompt(competition, limits, self._max_programs) for competition in competitions.values()
                ],
                "competition": list(competitions),
            }
        )

    @property
    def environment_factory(self) -> Callable[[], MLEEnvironment]:
        """Makes an environment for a rollout."""
        return self._environment

    @property
    def reward_funcs(self) -> list[EpisodeReward]:
        """What grades the episodes; empty where the environments do."""
        return [] if self._owns_reward else [self.reward]
