"""The reward as a plain function, for trainers that select rewards by name."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from trl_mle.competitions import load_competition
from trl_mle.rewards.mle_reward import MLEReward


_loaded = cache(load_competition)


def program_reward(
    prompts: list[Any], completions: list[Any], competition: Sequence[str], **kwargs: Any
) -> list[float | None]:
    """
    An [`MLEReward`] with default settings, created on the first call, which TRL's command selects by name:

    ```sh
    trl grpo --reward_funcs trl_mle.rewards.program_reward --dataset_name FOLDER ...
    ```
    """
    return _reward()(prompts, completions, competition=[_loaded(name) for name in competition], **kwargs)


@cache
def _reward() -> MLEReward:
    return MLEReward([])
