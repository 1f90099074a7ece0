"""Interprets calls of libraries, methods, and the program's own classes."""

import ast
import re
from dataclasses import replace

from trl_mle.instrumentation.milestones import MODEL_BUILT, MODEL_TRAINED, PREDICTIONS
from trl_mle.instrumentation.steps import vocabulary
from trl_mle.instrumentation.steps.record import Record
from trl_mle.instrumentation.steps.values import (
    NOTHING,
    Scope,
    Value,
    collection_of,
    concatenated,
    derived,
    element_of,
    few,
    join,
    view,
)
from trl_mle.instrumentation.steps.vocabulary import (
    BATCH_FITS,
    FITS,
    LAZY,
    MODEL,
    NAMESPACE,
    OPTIMIZER,
    PARSER,
    PREDICTS,
    READER,
    TRAIN,
    TRAINER,
    UNKNOWN,
    WRITER,
)


class Calls(Record):
    """Interprets calls with knowledge about libraries, and follows calls into the program's own classes."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults: dict[object, Value] = {}  # command-line arguments
        self.classes: dict[ast.ClassDef, Scope] = {}
        self.bases: dict[ast.ClassDef, list[Value]] = {}

    def follow(self, callee: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Interprets the body of one of the program's functions with these arguments."""
        raise NotImplementedError

    def library(self, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value | None:
        """Interprets a call of an imported or built-in function; `None` if nothing is known about it."""
        everything = [*arguments, *keywords.values()]
        first = everything[0] if everything else NOTHING
        if vocabulary.SCANS.fullmatch(name):
            return Value(tags=frozenset({LAZY}), texts=first.texts)
        if vocabulary.READS.fullmatch(name) and vocabulary.IMAGES.fullmatch(name):
            return self.read_image(first)
        if vocabulary.READS.fullmatch(name) and "usecols" in keywords:
            return self.read_columns(first)
        if name == "datasets.load_dataset" and keywords.get("data_files", NOTHING).items:
            files = keywords["data_files"].items or {}
            return collection_of({key: self.read(path) for key, path in files.items()})
        if vocabulary.READS.fullmatch(name):
            return derived([self.read(path) for path in (everything if name.startswith("datasets.") else [first])])
        if vocabulary.OPENS.fullmatch(name):
            mode = keywords.get("mode", arguments[1] if len(arguments) > 1 else NOTHING)
            writes = any(set(text) & set("wax") for text in mode.texts)
            return Value(tags=frozenset({WRITER if writes else READER}), texts=first.texts)
        if name in {"os.path.join", "pathlib.Path", "pathlib.PurePath"}:
            return concatenated(arguments, "/")
        if vocabulary.PATHS.fullmatch(name):
            return Value(tags=first.data, texts=first.texts)
        if name in {"os.getenv", "os.environ.get"}:
            return Value(texts=arguments[1].texts if len(arguments) > 1 else frozenset())
        if name == "zip" and everything and all(value.items is not None for value in everything):
            rows = zip(*(list((value.items or {}).values()) for value in everything), strict=False)
            return collection_of({index: collection_of(dict(enumerate(row))) for index, row in enumerate(rows)})
        if name == "enumerate" and first.items is not None:
            rows = zip([NOTHING] * len(first.items), first.items.values(), strict=True)
            return collection_of({index: collection_of(dict(enumerate(row))) for index, row in enumerate(rows)})
        if name in {"zip", "enumerate"}:
            return Value(tags=join(everything).tags)
        if vocabulary.HANDS_ON.fullmatch(name):
            if name in {"list", "tuple", "set", "sorted"} and READER in first.tags:
                return self.read(first)
            return first
        if name == "dict" and not arguments:
            return collection_of(dict(keywords.items()))
        if vocabulary.SPLITS.fullmatch(name):
            return Value(tags=frozenset({TRAIN}))
        if name == "dataclasses.field":
            return NOTHING  # its factory is called for each instance
        if name == "argparse.ArgumentParser":
            return Value(tags=frozenset({PARSER}))
        if vocabulary.ADAPTERS.fullmatch(name):
            return self.complete(first)
        if vocabulary.SOLVERS.fullmatch(name) and any(TRAIN in value.tags for value in everything):
            self.reach(MODEL_BUILT)
            self.reach(MODEL_TRAINED)
            return derived(everything)
        if vocabulary.PIPELINES.fullmatch(name):
            return self.build() if any(MODEL in value.tags for value in everything) else NOTHING
        if vocabulary.MODELS.fullmatch(name) and not vocabulary.NOT_MODELS.fullmatch(name):
            return self.build()
        if vocabulary.TRAINING_FUNCTIONS.fullmatch(name):
            self.reach(MODEL_TRAINED)
            return self.build()
        if vocabulary.TRAINERS.fullmatch(name):
            if "model_init" in keywords:
                self.follow(keywords["model_init"], [], {})
            return Value(tags=frozenset({TRAINER}))
        if vocabulary.OPTIMIZERS.fullmatch(name):
            return Value(tags=frozenset({OPTIMIZER}))
        if vocabulary.WRITES.fullmatch(name):
            return self.write(first if name == "numpy.savetxt" else everything[-1] if everything else NOTHING)
        return None

    def construct(self, callee: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Creates an instance of one of the program's classes."""
        cls = callee.code
        assert isinstance(cls, ast.ClassDef)
        if self.is_network(cls):
            self.reach(MODEL_BUILT)
            return Value(tags=frozenset({MODEL}), instance=cls)
        data = derived([*arguments, *keywords.values()])
        is_model = self.member(cls, "fit") is not None and self.member(cls, "predict") is not None
        instance = Value(tags=data.tags | {MODEL} if is_model else data.tags, instance=cls)
        initializer = self.member(cls, "__init__")
        if initializer is not None:
            self.follow(initializer, [instance, *arguments], keywords)
        if is_model:
            self.reach(MODEL_BUILT)
        return instance

    def is_network(self, cls: ast.ClassDef) -> bool:
        """Whether it is a torch or keras network. A loss function is a `Module` too, but not the model."""
        return any(
            vocabulary.NETWORKS.fullmatch(base.name)
            for one in self.lineage(cls, but_for="loss")
            for base in self.bases[one]
        )

    def lineage(self, cls: ast.ClassDef, but_for: str | None = None) -> list[ast.ClassDef]:
        """The class and those of the program that it derives from, each once, without those with this word in their names."""
        found: dict[ast.ClassDef, None] = {}
        ahead = [cls]
        while ahead:
            one = ahead.pop()
            if one not in found and (but_for is None or but_for not in one.name.lower()):
                found[one] = None
                ahead += [base.code for base in reversed(self.bases[one]) if isinstance(base.code, ast.ClassDef)]
        return list(found)

    def method(
        self,
        receiver: Value,
        callee: Value,
        func: ast.Attribute,
        arguments: list[Value],
        keywords: dict[str, Value],
    ) -> Value | None:
        """Interprets a method call; `None` if nothing is known about it."""
        name = func.attr
        everything = [*arguments, *keywords.values()]
        first = everything[0] if everything else NOTHING
        is_step = name in FITS | BATCH_FITS | PREDICTS
        if callee.code is not None and not (is_step and receiver.instance and self.is_network(receiver.instance)):
            before = self.counts.copy()
            bound = [receiver, *arguments] if receiver.instance and not _is_static(callee.code) else arguments
            result = self.follow(callee, bound, keywords)
            if MODEL in receiver.tags and name in FITS and self.counts[MODEL_TRAINED] == before[MODEL_TRAINED]:
                self.reach(MODEL_TRAINED)
            if MODEL in receiver.tags and name in PREDICTS and self.counts[PREDICTIONS] == before[PREDICTIONS]:
                self.predict(arguments)
            return receiver if name in FITS else result

        if TRAINER in receiver.tags and name in {"fit", "train"}:
            self.reach(MODEL_TRAINED)
            return NOTHING
        if {MODEL, TRAINER} & receiver.tags and name in PREDICTS:
            return self.predict(everything)
        if MODEL in receiver.tags and name in FITS | BATCH_FITS:
            self.reach(MODEL_TRAINED, batch=name in BATCH_FITS)
            return receiver
        if MODEL in receiver.tags and name in vocabulary.KEEPS_MODEL:
            return receiver
        if name == "step" and self.is_optimizer(receiver, func.value, first):
            self.reach(MODEL_TRAINED, batch=True)
            return NOTHING

        if name in vocabulary.TABLE_WRITES:
            is_path = name.startswith("write_") and receiver.texts
            return self.write(receiver if is_path else keywords.get("path_or_buf", first))
        if name in {"read_text", "read_bytes"} and receiver.texts:
            return self.read(receiver)
        if name == "open" and receiver.texts:
            return self.library("open", [receiver, *arguments], keywords)
        if name in {"read", "readlines"} and READER in receiver.tags:
            return self.read(receiver)
        if LAZY in receiver.tags:
            return self.read(Value(texts=receiver.texts)) if name == "collect" else receiver
        if name == "add_argument" and PARSER in receiver.tags:
            names = [min(value.texts, default="") for value in arguments]
            names += sorted(keywords.get("dest", NOTHING).texts)
            if names:
                self.defaults[names[-1].lstrip("-").replace("-", "_")] = keywords.get("default", NOTHING)
            return NOTHING
        if name == "parse_args" and PARSER in receiver.tags:
            return Value(tags=frozenset({NAMESPACE}), items=dict(self.defaults))
        if name == "close" and WRITER in receiver.tags:
            return self.write(receiver)
        if name == "joinpath":
            return concatenated([receiver, *arguments], "/")
        if name == "format" and receiver.texts:
            return Value(texts=few(map(_formatted, receiver.texts)))
        if name in {"glob", "rglob", "resolve", "absolute", "as_posix", "expanduser"} and receiver.texts:
            return concatenated([receiver, *arguments], "/")
        if name in {"items", "values", "keys"} and receiver.items is not None:
            return view(receiver.items, name)
        if name in {"items", "values", "copy", "get", "pop"}:
            return replace(element_of(receiver), texts=frozenset()) if name != "copy" else receiver
        return None

    def is_optimizer(self, receiver: Value, node: ast.expr, first: Value) -> bool:
        """Whether it is `optimizer.step()` or `scaler.step(optimizer)`; if the value is unknown, the name decides."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return OPTIMIZER in receiver.tags | first.tags or "optim" in name.lower()

    def member(self, cls: ast.ClassDef, name: str) -> Value | None:
        scopes = (self.classes[one].variables for one in self.lineage(cls))
        return next((variables[name] for variables in scopes if name in variables), None)


def _is_static(code: ast.AST) -> bool:
    decorators = code.decorator_list if isinstance(code, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any(isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in decorators)


def _formatted(text: str) -> str:
    """A text with unknown values in its braces. Braces that nothing closes are left out, or each would be read to the end."""
    closed, end, rest = text.rpartition("}")
    return re.sub(r"\{[^}]*\}", UNKNOWN, closed + end) + rest
