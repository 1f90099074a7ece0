"""Abstract values, their derivation, and the scopes and evaluations that hold them."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from trl_mle.instrumentation.steps.vocabulary import DATA, MAX_DEPTH, MAX_TEXT_LENGTH, MAX_TEXTS, TEST, TRAIN, UNKNOWN


@dataclass(frozen=True, eq=False)
class Value:
    """Known facts about a value of the program."""

    tags: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()  # possible strings or paths
    items: "dict[object, Value] | None" = None  # elements of a list, tuple or dict, if all are known
    name: str = ""  # dotted name of an imported or built-in object
    code: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | None = None  # defined in the program
    scope: "Scope | None" = None  # where `code` looks up names
    instance: ast.ClassDef | None = None  # the program's class, for an instance
    built: "Evaluation | None" = None  # where it was complete, for a model that can still be extended

    @property
    def data(self) -> frozenset[str]:
        return self.tags & DATA

    @property
    def known(self) -> bool:
        return bool(self.tags or self.texts or self.name or self.code or self.instance) or self.items is not None


NOTHING = Value()


@dataclass(eq=False)
class Scope:
    """The variables of a module, function, class or comprehension."""

    parent: "Scope | None" = None
    variables: dict[str, Value] = field(default_factory=dict)
    global_names: set[str] = field(default_factory=set)

    def get(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return Value(name=name)

    def set(self, name: str, value: Value) -> None:
        scope = self
        if name in self.global_names:
            while scope.parent is not None:
                scope = scope.parent
        scope.variables[name] = value


@dataclass(eq=False)
class Evaluation:
    """One evaluation of a statement: in one call, with one element of a loop."""

    statement: ast.stmt
    parent: "Evaluation | None"  # evaluation of the calling statement, or of the loop
    conditional: bool  # the call or loop iteration may skip the statement
    returns: "list[Evaluation]"  # evaluations of `return` in the same call
    outer: "Evaluation | None" = None  # of the enclosing statement, or of the calling one
    earlier: "tuple[Evaluation, ...]" = ()  # evaluations of `return` that may have ended the call before
    milestones: set[str] = field(default_factory=set)
    lifted: set[str] = field(default_factory=set)  # milestones that its parent has instead
    data: set[str] = field(default_factory=set)  # that its values derive from

    def can_be_lifted(self, milestone: str) -> bool:
        """Whether the parent can only complete after the step."""
        if self in self.returns:
            others: Iterable[Evaluation] = self.returns
        elif self.conditional:
            return False
        else:
            others = self.earlier
        return all(milestone in other.milestones | other.lifted for other in others)


# Stands for an end without a step: of a function without `return`, of a part of an expression that is left out
NO_STEP = Evaluation(ast.Pass(), None, True, [])


def join(values: Iterable[Value], depth: int = MAX_DEPTH) -> Value:
    """
    A value that is one of these. Elements of lists in lists are followed down to `depth`: a program may double
    them with each line, as `a, b = [a, b], [b, a]` does.
    """
    # Each once: `x = [x, x]` holds the same value twice
    values = list(dict.fromkeys(value for value in values if value.known))
    if len(values) < 2:
        return values[0] if values else NOTHING
    items = [value.items for value in values if value.items is not None]
    same_keys = len(items) == len(values) and all(item.keys() == items[0].keys() for item in items)
    inner = {key: join((item[key] for item in items), depth - 1) for key in items[0]} if same_keys and depth else None
    definite = next((value for value in values if value.name or value.code or value.instance), NOTHING)
    return replace(
        definite,
        tags=frozenset().union(*(value.tags for value in values)),
        texts=few(text for value in values for text in value.texts),
        items=inner,
    )


def few(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(sorted(set(texts))[:MAX_TEXTS])


def derived(values: Iterable[Value]) -> Value:
    """A value computed from these by unknown means."""
    return Value(tags=frozenset().union(*(value.data for value in values)))


def collection_of(items: dict[object, Value]) -> Value:
    joined = join(items.values())
    return Value(tags=joined.tags, texts=joined.texts, items=items)


def element_of(value: Value) -> Value:
    if value.items is not None:
        return join(value.items.values())
    return Value(tags=value.tags, texts=value.texts)


def concatenated(parts: list[Value], separator: str) -> Value:
    """Strings or paths, one after the other."""
    texts = [""]
    if any(part.texts for part in parts):
        for index, part in enumerate(parts):
            between = separator if index else ""
            texts = [left + between + right for left in texts for right in sorted(part.texts or {UNKNOWN})][:MAX_TEXTS]
            texts = [text[-MAX_TEXT_LENGTH:] for text in texts]  # a path's name is at its end
    return Value(tags=derived(parts).tags, texts=few(texts) - {""})


def kinds_of_paths(texts: Iterable[str]) -> set[str]:
    return {kind for text in texts if (kind := _kind_of_path(text)) is not None}


def _kind_of_path(text: str) -> str | None:
    """Whether a file holds training or test data, by the innermost file or folder name that says so."""
    parts = [part for part in re.split(r"[/\\]", text.lower()) if part]
    if parts and "submission" in parts[-1]:
        return None
    for part in parts[:-4:-1]:
        found = set(re.findall(r"(?<![a-z])[xy]?(train|test)", part))
        if found:
            return {"train": TRAIN, "test": TEST}[found.pop()] if len(found) == 1 else None
    return None


def is_submission(value: Value) -> bool:
    return bool(value.texts) and all(re.split(r"[/\\]", text)[-1] == "submission.csv" for text in value.texts)


def view(items: dict[object, Value], method: str) -> Value:
    """Interprets `items()`, `values()` and `keys()` of a dict."""
    keys = [Value(texts=frozenset({key})) if isinstance(key, str) else NOTHING for key in items]
    if method == "items":
        pairs = zip(keys, items.values(), strict=True)
        return collection_of({index: collection_of(dict(enumerate(pair))) for index, pair in enumerate(pairs)})
    return collection_of(dict(enumerate(keys if method == "keys" else items.values())))
