"""The prompts of a dataset, each made when its row is read."""

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from trl_mle.competitions import Competition, TaskSet


if TYPE_CHECKING:
    from datasets import Dataset


Prompt = list[dict[str, str]]


class PromptsWhenRead:
    """
    A transform of a dataset with the column `competition`: adds the column `prompt`. A competition is loaded when a row that
    names it is read. It pickles as its arguments, for data loaders in other processes.

    Args:
        competitions ([`~trl_mle.competitions.TaskSet`]):
            Those that the rows name.
        make (`Callable[[Competition], Prompt]`):
            Makes the prompt of one; it must pickle, too.
    """

    def __init__(self, competitions: TaskSet, make: Callable[[Competition], Prompt]):
        self._arguments = competitions, make
        self._of = lru_cache(maxsize=1024)(self._made)

    def __reduce__(self) -> tuple:
        return type(self), self._arguments

    def __call__(self, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"prompt": [deepcopy(self._of(name)) for name in rows["competition"]], **rows}

    def _made(self, name: str) -> Prompt:
        competitions, make = self._arguments
        competition = competitions[name]
        with competitions.blaming(name):
            return make(competition)

    def dataset(self, names: list[str]) -> "Dataset":
        """The dataset whose rows name these competitions."""
        from datasets import Dataset  # here, because it takes half a second

        return Dataset.from_dict({"competition": names}).with_transform(self)
