"""Suggestions for mistyped names."""

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType


def did_you_mean(name: str, known: Iterable[str], paths: Mapping[str, str] = MappingProxyType({})) -> str:
    """Suggests what a mistyped name may have meant: `"did you mean 'wine'?"`, or nothing if no known name is close.
    `paths` says what to write instead of some names."""
    known = list(known)
    near = [other for other in known if other.lower() == name.lower()] or difflib.get_close_matches(name, known)
    return f"did you mean {' or '.join(repr(paths.get(other, other)) for other in near)}?" if near else ""
