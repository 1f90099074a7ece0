"""The reward as a plain function, for trainers that select rewards by name."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from trl_mle.competitions import Competition, TaskSet
from trl_mle.rewards.mle_reward import MLEReward


def program_reward(
    prompts: list[Any], completions: list[Any], competition: Sequence[str], **kwargs: Any
) -> list[float | None]:
    """
    An [`MLEReward`] with default settings, created on the first call, which TRL's command selects by name:

    ```sh
    trl grpo --reward_funcs trl_mle.rewards.program_reward --dataset_name FOLDER ...
    ```
    """
    return _reward()(prompts, completions, competition=list(competition), **kwargs)


class _Asked(TaskSet):
    """Any competition, from when it is first asked for."""

    def __contains__(self, competition_id: object) -> bool:
        return isinstance(competition_id, str)

    def __getitem__(self, competition_id: str) -> Competition:
        if competition_id not in self._tasks:
            self._tasks[competition_id] = competition_id
            self._single.append(competition_id)
        return super().__getitem__(competition_id)


@cache
def _reward() -> MLEReward:
    return MLEReward(_Asked([]))
