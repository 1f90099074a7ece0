"""Reads the data files that lie beside the code."""

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


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
