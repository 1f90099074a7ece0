"""Reads the data files that lie beside the code."""

from pathlib import Path
from typing import Any

import yaml


def read_data(path: Path) -> Any:
    """Reads a YAML file of this package, with tuples for lists, because everybody shares what it holds."""
    return _frozen(yaml.safe_load(path.read_text(encoding="utf-8")))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
