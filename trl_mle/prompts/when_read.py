"""The prompts of a dataset, each made when its row is read."""

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from trl_mle.competitions import TaskSet
from trl_mle.prompts.ideas import Idea, Ideas


if TYPE_CHECKING:
    from datasets import Dataset


Prompt = list[dict[str, str]]


class PromptsWhenRead:
    """
    A transform of a dataset with the column `competition`, which is loaded when its row is read: adds the column
    `prompt` and, with ideas and a column `turn`, `idea`. It pickles as its arguments, for data loaders.

    Args:
        competitions ([`~trl_mle.competitions.TaskSet`]):
            Those that the rows name.
        make (`Callable[..., Prompt]`):
            Makes the prompt of one, with ideas for the argument `idea`; it must pickle, too.
        ideas ([`~trl_mle.prompts.Ideas`], *optional*):
            The ideas that rows name, in turn.
    """

    def __init__(self, competitions: TaskSet, make: Callable[..., Prompt], ideas: Ideas | None = None):
        self._arguments = self._competitions, self._make, self._ideas = competitions, make, ideas or Ideas()
        self._prompt = lru_cache(maxsize=1024)(self._made)

    def __reduce__(self) -> tuple:
        return type(self), self._arguments

    def __call__(self, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        names = rows["competition"]
        ideas: list[Idea | None] = [None] * len(names)
        if self._ideas:
            tasks = [self._competitions[name] for name in names]
            ideas = list(map(self._ideas.turn, tasks, rows["turn"]))
            rows = {"idea": [None if idea is None else idea.name for idea in ideas], **rows}
        return {"prompt": [deepcopy(self._prompt(*asked)) for asked in zip(names, ideas, strict=True)], **rows}

    def _made(self, name: str, idea: Idea | None) -> Prompt:
        competition = self._competitions[name]
        with self._competitions.blaming(name):
            return self._make(competition) if idea is None else self._make(competition, idea=idea)

    def dataset(self, names: list[str]) -> "Dataset":
        """The dataset whose rows name these competitions."""
        from datasets import Dataset  # here, because it takes half a second

        columns: dict[str, list[Any]] = {"competition": names}
        if self._ideas:
            counts: defaultdict[str, count[int]] = defaultdict(count)
            columns["turn"] = [next(counts[name]) for name in names]
        return Dataset.from_dict(columns).with_transform(self)
