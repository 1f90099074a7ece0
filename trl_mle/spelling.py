"""Suggestions for mistyped names."""

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType


def did_you_mean(name: str, known: Iterable[str], paths: Mapping[str, str] = MappingProxyType({})) -> str:
    """
    Suggests what a mistyped name may have meant.

    Args:
        name (`str`):
            The unknown name.
        known (`Iterable[str]`):
            The known names.
        paths (`Mapping[str, str]`, *optional*):
            What to write instead of some of them: the paths of folders, which are compared by their names.

    Returns:
        `str`: For example `"did you mean 'wine'?"`; empty if no known name is close.
    """
    near = difflib.get_close_matches(name, list(known))
    return f"did you mean {' or '.join(repr(paths.get(other, other)) for other in near)}?" if near else ""
