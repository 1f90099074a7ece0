"""What is known of the values of a program."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from trl_mle.instrumentation.milestones import TEST_DATA, TRAIN_DATA


DATA = frozenset({TRAIN_DATA, TEST_DATA})
MAX_TEXTS = 8  # possible paths of one value
MAX_TEXT_LENGTH = 1000  # characters of each: a program can double a string in a loop


@dataclass(frozen=True, eq=False)
class Value:
    """Known facts about a value of the program."""

    tags: frozenset[str] = frozenset()  # data that it derives from, and what it is: a model, trainer, reader, …
    texts: frozenset[str] = frozenset()  # possible strings or paths
    items: "dict[Any, Value] | None" = None  # elements of a list, tuple or dict, if all are known
    name: str = ""  # dotted name of an imported or built-in object
    code: Any = None  # the program's function, lambda or class, and where it looks up names
    scope: "Scope | None" = None
    members: "Scope | None" = None  # of an instance of one of the program's classes
    origin: ast.AST | None = None  # where an untrained model was built


NOTHING = Value()


@dataclass(eq=False)
class Scope:
    """The variables of a module, function, class or comprehension."""

    parent: "Scope | None" = None
    variables: dict[str, Value] = field(default_factory=dict)

    def get(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return Value(name=name)


def join(values: Iterable[Value]) -> Value:
    """A value that is one of these."""
    distinct = [value for value in dict.fromkeys(values) if value is not NOTHING]  # `[x, x]` holds it twice
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    definite = next((value for value in distinct if value.name or value.code or value.members), NOTHING)
    return replace(
        definite,
        tags=frozenset().union(*(value.tags for value in distinct)),
        texts=frozenset(sorted({text for value in distinct for text in value.texts})[:MAX_TEXTS]),
        items=None,
    )


def derived(values: Iterable[Value]) -> Value:
    """A value computed from these by unknown means."""
    return Value(tags=DATA.intersection(tag for value in values for tag in value.tags))


def collection(values: "Iterable[Value] | dict[Any, Value]") -> Value:
    """A list, tuple or dict of these; which element is which is forgotten if a key is unknown."""
    items = values if isinstance(values, dict) else dict(enumerate(values))
    joined = join(items.values())
    return Value(tags=joined.tags, texts=joined.texts, items=None if None in items else items)


def element_of(value: Value) -> Value:
    return Value(tags=value.tags, texts=value.texts) if value.items is None else join(value.items.values())


def concatenated(parts: list[Value], separator: str) -> Value:
    """Strings or paths, one after the other."""
    texts = [""]
    for index, part in enumerate(parts if any(part.texts for part in parts) else []):
        between = separator if index else ""
        texts = [left + between + right for left in texts for right in sorted(part.texts or {"?"})][:MAX_TEXTS]
        texts = [text[-MAX_TEXT_LENGTH:] for text in texts]  # a path's name is at its end
    return Value(tags=derived(parts).tags, texts=frozenset(texts) - {""})


def data_of_paths(texts: Iterable[str]) -> frozenset[str]:
    """Which data files hold, by the innermost file or folder name that says so."""
    kinds: set[str] = set()
    for text in texts:
        parts = [part for part in re.split(r"[/\\]", text.lower()) if part][-3:]
        named = [set(re.findall(r"(?<![a-z])[xy]?(train|test)", part)) for part in reversed(parts)]
        if parts and "submission" not in parts[-1]:
            kinds |= next(filter(None, named), set())
    return frozenset(f"{kind}_data" for kind in kinds)
