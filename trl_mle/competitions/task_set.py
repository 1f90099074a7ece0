"""Many competitions as one lazy collection: ids now, data at the first program."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trl_mle.competitions.catalog import CONFIG
from trl_mle.competitions.competition import Competition, CompetitionError, GradingFailed, path_slug
from trl_mle.competitions.families import PREFIX as TASK_PREFIX
from trl_mle.competitions.loading import folders_in, id_of, list_competitions, load_competition
from trl_mle.competitions.repository import HUB_PREFIX, tasks_in_repository


FEW = 32  # are loaded at the start, and listed one by one in metrics and on the model card
KEPT = 64  # loaded competitions, with their answers
WITHOUT = "without:"


class TaskSet(Mapping[str, Competition]):
    """
    Competitions by id, each loaded when it is first used: a run over thousands starts like a run over one.

    Args:
        tasks (`Iterable[Competition | str]`):
            Competitions, or names of one or of many, see [`names_of`]; `without:<name>` leaves out what it names.
        data_dir (`Path` or `str`, *optional*), holdout (`float`, *optional*, defaults to `0.0`):
            As for [`load_competition`], for those given by name.

    Raises:
        [`CompetitionError`]: A name of many cannot be read, or two competitions have the same id or slug.

    Example:

    ```python
    >>> from trl_mle.competitions import TaskSet

    >>> tasks = TaskSet(["digits", "task:train/0-4999"])
    >>> len(tasks), tasks["task:train/7"].metric
    (5001, 'accuracy')
    ```
    """

    def __init__(
        self, tasks: Iterable[Competition | Path | str] | str, data_dir: Path | str | None = None, holdout: float = 0.0
    ):
        self._data_dir = data_dir
        self._holdout = holdout
        self._tasks: dict[str, Competition | str] = {}
        self._single: list[str] = []  # ids of those that were given one by one
        left_out: list[str] = []
        for task in [tasks] if isinstance(tasks, str) else tasks:
            if str(task).startswith(WITHOUT):
                left_out.append(str(task).removeprefix(WITHOUT))
                continue
            members: Sequence[Competition | str] = [task] if isinstance(task, Competition) else names_of(str(task))
            ids = [id_of(one, data_dir) if isinstance(one, str) else one.id for one in members]
            for name, one in zip(ids, members, strict=True):
                if self._tasks.setdefault(name, one) != one:
                    raise CompetitionError(f"{self._tasks[name]} and {one} are both called {name!r}: rename one")
            if len(ids) == 1:
                self._single += ids
        for name in left_out:
            self._leave_out(name)
        slugs: dict[str, str] = {}
        for name in self._tasks:
            slug = path_slug(name)
            if (other := slugs.setdefault(slug, name)) != name:
                raise CompetitionError(f"{other!r} and {name!r} would share the file name {slug!r}: rename one")
        self._kept: dict[str, Competition] = {}  # those that were loaded by name, the last used last

    @classmethod
    def of(cls, tasks: "TaskSet | Iterable[Competition | str]") -> "TaskSet":
        """A task set, made if it is not one yet."""
        return tasks if isinstance(tasks, TaskSet) else cls(tasks)

    def _leave_out(self, name: str) -> None:
        ids = [name] if name in self._tasks else [id_of(one, self._data_dir) for one in names_of(name)]
        for competition_id in ids:
            if self._tasks.pop(competition_id, None) is None:
                raise CompetitionError(f"{WITHOUT}{name} leaves out {competition_id!r}, which is not among the others")
        self._single = [one for one in self._single if one in self._tasks]

    def __getitem__(self, competition_id: str) -> Competition:
        task = self._tasks[competition_id]
        if not isinstance(task, str):
            return task
        competition = self._kept.pop(task, None)
        if competition is None:
            with self.blaming(competition_id):
                competition = load_competition(task, self._data_dir, self._holdout)
                competition.check_answers()
        self._kept[task] = competition
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return competition

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": {}}

    def __contains__(self, competition_id: object) -> bool:  # `Mapping`'s would load it
        return competition_id in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def blaming(self, competition_id: str) -> Iterator[None]:
        """Turns errors into a [`CompetitionError`] that names the competition, and how to go on without it."""
        try:
            yield
        except (ValueError, OSError, OverflowError, MemoryError, GradingFailed) as error:
            text = str(error) or type(error).__name__
            text = text if competition_id in text else f"{competition_id!r}: {text}"
            if competition_id not in self._single:
                text += f"; to go on without it, add {WITHOUT}{competition_id} to the competitions"
            raise CompetitionError(text) from error

    def holdout(self, competition_id: str) -> float:
        """The share of a competition's rows that are held out, without loading it."""
        task = self._tasks[competition_id]
        return self._holdout if isinstance(task, str) else task.holdout

    def few(self) -> list[str]:
        """What a start looks at: those given one by one, whose names may be wrong, and others, evenly spread."""
        if len(self._tasks) <= FEW:
            return list(self._tasks)
        first = list(dict.fromkeys(self._single)) if len(self._single) < FEW else []
        others, left = [name for name in self._tasks if name not in first], FEW - len(first)
        return first + [others[i * len(others) // left] for i in range(left)]


def names_of(name: str) -> list[str]:
    """
    The names for [`load_competition`] that a name stands for: `task:train/0-4999`, a folder of competitions, or
    `hf://datasets/<owner>/<name>`, with or without `@<revision>`. Raises [`CompetitionError`].
    """
    if match := re.fullmatch(rf"({TASK_PREFIX}(?:train|test)/)(\d+)-(\d+)", name):
        first, last = int(match[2]), int(match[3])
        if not 0 <= last - first < 1_000_000:
            raise CompetitionError(f"{name!r} must count up, and name at most a million tasks")
        return [f"{match[1]}{number}" for number in range(first, last + 1)]
    if name.startswith(HUB_PREFIX):
        return tasks_in_repository(name)
    path = Path(name).expanduser()
    if not name or not path.is_dir() or name in list_competitions():
        return [name]
    folders = [path] if (path / CONFIG).is_file() else folders_in(path)
    # A folder called digits in the current folder is not ours
    return [f"./{folder}" if len(folder.parts) == 1 else str(folder) for folder in folders] or [name]
