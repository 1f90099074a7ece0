"""A digest of a competition's content, independent of its name and location."""

import functools
import hashlib
import inspect
import json
from dataclasses import fields
from pathlib import Path
from types import CodeType, EllipsisType, FunctionType
from typing import Any

from trl_mle.competitions.competition import Competition


@functools.lru_cache
def content_digest(competition: Competition) -> str:
    """
    SHA-256 of everything that programs can read and that grading depends on: the bytes of the files, and all fields
    except the id. A custom metric, which must be a plain function, is identified by its name, code, closure, defaults and
    the file that it is in; not by what that imports.
    """
    # An empty `text_columns` is left out: digests that were stored before there was such a field remain valid
    settings = {
        item.name: _described(value)
        for item in fields(Competition)
        if item.name != "id" and (value := getattr(competition, item.name)) != ()
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _described(value: Any) -> Any:
    """A JSON-compatible description of a field's value."""
    if isinstance(value, Path):
        if not value.is_dir():
            return _file_digest(value)
        return {path.relative_to(value).as_posix(): _file_digest(path) for path in value.rglob("*") if path.is_file()}
    if isinstance(value, tuple):  # a `Metric` is one
        return [_described(item) for item in value]
    if isinstance(value, functools.partial):
        return [_described(value.func), _described(value.args), _described(tuple(value.keywords.items()))]
    if isinstance(value, FunctionType):
        value = inspect.unwrap(value)  # scikit-learn's functions are wrapped, in what has another text in each process
        closed = [repr(cell.cell_contents) for cell in value.__closure__ or ()]
        defaults = [repr(value.__defaults__), repr(value.__kwdefaults__)]
        source = Path(inspect.getsourcefile(value) or "")  # what else the function uses
        module = _file_digest(source) if source.is_file() else ""
        return [value.__module__, value.__qualname__, _described(value.__code__), closed, defaults, module]
    if isinstance(value, CodeType):
        return [value.co_code.hex(), list(value.co_names), [_described(item) for item in value.co_consts]]
    if isinstance(value, frozenset):  # a constant, in another order in each process
        return sorted(map(repr, value))
    if isinstance(value, complex | bytes | EllipsisType):
        return repr(value)
    if callable(value):
        raise ValueError(f"a metric whose results are to be reused must be a plain function, got {value!r}")
    return value


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
