"""Reads YAML files: those beside the code, and those of the user."""

from pathlib import Path
from typing import Any

import yaml


try:
    from yaml import CSafeLoader as Loader  # ten times as fast: every start of a program reads these files
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as Loader  # type: ignore[assignment]


def read_data(path: Path) -> Any:
    """Reads a YAML file of this package, with tuples for lists, because everybody shares what it holds."""
    return _frozen(yaml.load(path.read_text(encoding="utf-8"), Loader))


def read_mapping(path: Path, name: object, example: str) -> dict[Any, Any]:
    """
    Reads a YAML file of the user.

    Args:
        path (`Path`):
            The file.
        name (`object`):
            What messages call it.
        example (`str`):
            One of its lines, for messages.

    Raises:
        `ValueError`: It is not YAML, or does not map names to values.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{name} must hold lines of the form {example!r}")
    return content


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
