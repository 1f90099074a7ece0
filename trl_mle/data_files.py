"""Reads YAML files: those beside the code, and those of the user."""

from pathlib import Path
from typing import Any

import yaml


try:
    from yaml import CSafeLoader as Loader  # ten times as fast: every start of a program reads these files
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as Loader  # type: ignore[assignment]


def read_data(path: Path) -> Any:
    """Reads a YAML file of this package, with tuples for lists."""
    return _frozen(yaml.load(path.read_text(encoding="utf-8"), Loader))


class NoAliases(yaml.SafeLoader):
    """For files of others: half a kilobyte of aliases stands for a gigabyte of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="it has an alias", problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)


def read_mapping(
    path: Path, name: object, example: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader
) -> dict[Any, Any]:
    """Reads a YAML file of the user; messages call it `name`, and show `example` as a line of it. `loader` is
    [`NoAliases`] for a file that somebody else wrote. Raises `ValueError` if it is no mapping."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506
        repr(content)  # for messages: Python does not print every number
    except RecursionError as error:
        raise ValueError(f"{name} is nested too deeply") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # PyYAML's own where a tag does not fit
        raise ValueError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{name} must hold lines of the form {example!r}")
    return content


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
