"""The reward as a plain function, for trainers that select rewards by name."""

import atexit
from collections.abc import Sequence
from functools import cache
from typing import Any

from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards.mle_reward import MLEReward


def program_reward(
    prompts: list[Any], completions: list[Any], competition: Sequence[str], **kwargs: Any
) -> list[float | None]:
    """
    An [`MLEReward`] with default settings, created on the first call: a local executor with 60 s and 4 GB per program,
    and milestones. TRL's command selects it by name:

    ```sh
    trl grpo --reward_funcs trl_mle.rewards.program_reward --dataset_name FOLDER ...
    ```

    Args:
        prompts (`list`):
            The prompts.
        completions (`list`):
            The completions.
        competition (`Sequence[str]`):
            The dataset's column with the competition's id of each completion.
        **kwargs:
            Further columns, and TRL's `log_extra` and `log_metric`.

    Returns:
        `list[float | None]`: The rewards.
    """
    return _reward(frozenset(competition))(prompts, completions, competition=list(competition), **kwargs)


@cache
def _executor() -> LocalExecutor:
    executor = LocalExecutor()
    atexit.register(executor.close)
    return executor


@cache
def _reward(competitions: frozenset[str]) -> MLEReward:
    return MLEReward(sorted(competitions), _executor(), AstInstrumenter())
