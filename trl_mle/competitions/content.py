"""A digest of a competition's content, independent of its name and location."""

import functools
import hashlib
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from trl_mle.competitions.competition import Competition
from trl_mle.competitions.metrics import Metric


@functools.lru_cache
def content_digest(competition: Competition) -> str:
    """SHA-256 of the files and all fields except the id; a custom metric counts with the file of its module."""
    names = [item.name for item in fields(Competition) if item.name != "id"]
    settings = {name: _described(getattr(competition, name)) for name in names}
    module = sys.modules.get(competition.metric.rpartition(".")[0])
    file = Path(getattr(module, "__file__", None) or "")
    settings["source"] = _file_digest(file) if file.is_file() else None
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _described(value: Any) -> Any:
    if isinstance(value, Metric):
        return [value.higher_is_better, value.takes, value.best, value.undefined]
    if not isinstance(value, Path):
        return value
    if not value.is_dir():
        return _file_digest(value)
    return {path.relative_to(value).as_posix(): _file_digest(path) for path in value.rglob("*") if path.is_file()}


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
