"""Imports what users name by its dotted path."""

import os
import pkgutil
import sys
from typing import Any


def import_named(option: str, path: str) -> Any:
    """Imports an object, whose module may be in the current folder. Raises `ValueError` if it cannot."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return pkgutil.resolve_name(path)
    except Exception as error:  # its module may fail in any way
        raise ValueError(f"{option}: {path} cannot be imported: {error}") from error
