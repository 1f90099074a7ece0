"""What calls of libraries do, by their names."""

import ast
from dataclasses import dataclass

from trl_mle.instrumentation.milestones import MODEL_BUILT, MODEL_TRAINED, PREDICTIONS, SUBMISSION, TRAIN_DATA
from trl_mle.instrumentation.steps import names
from trl_mle.instrumentation.steps.values import DATA, NOTHING, Value, collection, concatenated, data_of_paths, derived


Done = dict[str, ast.stmt]  # milestones, each with the statement that reached it: the current one, or one within


@dataclass(frozen=True)
class Call:
    """A call with its interpreted arguments."""

    node: ast.Call
    values: list[Value]
    keywords: dict[str, Value]

    @property
    def everything(self) -> list[Value]:
        return [*self.values, *self.keywords.values()]

    @property
    def first(self) -> Value:
        return next(iter(self.everything), NOTHING)


class Calls:
    """The milestones that calls reach, but for those of `superseded`, which are complete only with later calls."""

    def __init__(self, superseded: set[tuple[ast.AST, str]]):
        self.superseded = superseded
        self.statement: ast.stmt = ast.Pass()
        self.done: Done = {}  # by this statement
        self.loops: list[tuple[ast.stmt, Done]] = []  # around it, also around calls
        self.repeats = 0  # comprehensions around it, and functions that a library calls
        self.reached: dict[str, list[ast.AST]] = {}

    def reach(self, milestone: str, node: ast.AST, batch: bool = False) -> None:
        """Notes a milestone; one that is done batch by batch is complete after the outermost loop."""
        self.reached.setdefault(milestone, []).append(node)
        if (node, milestone) not in self.superseded:
            statement, done = self.loops[0] if batch and self.loops else (self.statement, self.done)
            done[milestone] = statement

    def read(self, path: Value, node: ast.AST) -> Value:
        kinds = data_of_paths(path.texts)
        if len(kinds) != 1:
            return NOTHING
        self.reach(min(kinds), node)
        return Value(tags=kinds)

    def read_image(self, path: Value, node: ast.AST) -> Value:
        """Data are complete with their images, not with the table of labels; a single image is an example."""
        kinds = data_of_paths(path.texts) or path.tags & DATA or DATA
        if self.loops or self.repeats:
            for kind in kinds:
                self.superseded |= {(other, kind) for other in self.reached.get(kind, []) if other is not node}
            if len(kinds) == 1:
                self.reach(min(kinds), node)
        return Value(tags=kinds)

    def write(self, path: Value, node: ast.AST) -> Value:
        if path.texts and all(text.replace("\\", "/").rpartition("/")[2] == "submission.csv" for text in path.texts):
            self.reach(SUBMISSION, node)
        return NOTHING

    def predict(self, values: list[Value], node: ast.AST) -> Value:
        """Predictions on training or validation data are not a milestone."""
        data = derived(values)
        if data.tags != {TRAIN_DATA}:
            self.reach(PREDICTIONS, node)
        return data

    def build(self, node: ast.AST) -> Value:
        self.reach(MODEL_BUILT, node)
        return Value(tags=frozenset({"model"}), origin=node)

    def extend(self, model: Value, node: ast.AST) -> Value:
        """A layer is added to an untrained model."""
        if model.origin is None or MODEL_TRAINED in self.reached:
            return model
        self.superseded.add((model.origin, MODEL_BUILT))
        return self.build(node)

    def library(self, name: str, call: Call) -> Value | None:
        """A call of an imported or built-in function; `None` if nothing is known about it."""
        node, first = call.node, call.first
        match kind := names.kind_of(name):
            case "image":
                return self.read_image(first, node)
            case "read":
                return self.read(first, node)
            case "files":
                files = call.keywords.get("data_files", first)
                return collection({key: self.read(path, node) for key, path in (files.items or {None: files}).items()})
            case "later":
                return NOTHING
            case "open":
                writes = any(set(text) & set("wax") for value in call.everything[1:2] for text in value.texts)
                return Value(tags=frozenset({"writer" if writes else "reader"}), texts=first.texts)
            case "path":
                return concatenated(call.values, "/")
            case "adapter":
                return self.extend(first, node)
            case "solver" if any(TRAIN_DATA in value.tags for value in call.everything):
                self.reach(MODEL_TRAINED, node)
                return self.build(node)
            case "pipeline":
                return self.build(node) if any("model" in value.tags for value in call.everything) else NOTHING
            case "model":
                return Value(tags=frozenset({"model"})) if "include_top" in call.keywords else self.build(node)
            case "train":
                self.reach(MODEL_TRAINED, node)
                return self.build(node)
            case "trainer" | "optimizer":
                return Value(tags=frozenset({kind}))
            case "savetxt":
                return self.write(first, node)
            case "move":
                return self.write(call.everything[-1] if call.everything else NOTHING, node)
        return None

    def method(self, receiver: Value, name: str, call: Call) -> Value | None:
        """A call of a library's method; `None` if nothing is known about it."""
        node, tags = call.node, receiver.tags
        if "trainer" in tags and name in ("fit", "train"):
            self.reach(MODEL_TRAINED, node)
            return NOTHING
        if {"model", "trainer"} & tags and name in names.PREDICTS:
            return self.predict(call.everything, node)
        if "model" in tags and name in names.FITS | names.BATCH_FITS:
            self.reach(MODEL_TRAINED, node, batch=name in names.BATCH_FITS)
            return receiver
        if name == "step" and "optimizer" in tags | call.first.tags:
            self.reach(MODEL_TRAINED, node, batch=True)
            return NOTHING
        if name in names.TABLE_WRITES:
            return self.write(call.keywords.get("path_or_buf", call.first), node)
        if name == "close" and "writer" in tags:
            return self.write(receiver, node)
        if name in ("items", "values", "keys") and receiver.items is not None:
            keys = [Value(texts=frozenset({key} if isinstance(key, str) else ())) for key in receiver.items]
            pairs = (collection(pair) for pair in zip(keys, receiver.items.values(), strict=True))
            return collection({"items": pairs, "keys": keys, "values": receiver.items.values()}[name])
        return None
