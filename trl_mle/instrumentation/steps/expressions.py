"""Interprets expressions, including calls of the program's own functions."""

import ast
from collections.abc import Callable
from dataclasses import replace

from trl_mle.instrumentation.steps import vocabulary
from trl_mle.instrumentation.steps.calls import Calls
from trl_mle.instrumentation.steps.values import (
    NO_STEP,
    NOTHING,
    Evaluation,
    Scope,
    Value,
    collection_of,
    concatenated,
    derived,
    element_of,
    join,
)
from trl_mle.instrumentation.steps.vocabulary import (
    ADDS,
    DEFINITIONS,
    MAX_CALLS,
    MAX_ELEMENTS,
    MAX_WORK,
    MODEL,
    NAMESPACE,
    READER,
    TEST,
)


class Expressions(Calls):
    """Interprets expressions, and assigns their values."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: list[str] = []  # modules with a star import
        self.calls: list[ast.AST] = []
        self.lazy: dict[ast.AST, bool] = {}
        self.work = 0

    def run(self, block: list[ast.stmt], scope: Scope) -> None:
        """Interprets the statements of a block."""
        raise NotImplementedError

    def falls_through(self, block: list[ast.stmt], scope: Scope) -> bool:
        """Whether a function whose body is this block can end without `return`, `raise` and the like."""
        raise NotImplementedError

    def value(self, node: ast.expr, scope: Scope) -> Value:
        value = self.computed(node, scope)
        self.evaluation.data |= value.data
        return value

    def computed(self, node: ast.expr, scope: Scope) -> Value:
        self.work += 1
        match node:
            case ast.Constant(value=str(text)):
                return Value(texts=frozenset({text}))
            case ast.Name(id=name):
                found = scope.get(name)
                return self.imported(name) if found.name == name and self.modules else found
            case ast.Yield(value=ast.expr() as inner) | ast.YieldFrom(value=inner):
                self.returned.append(self.value(inner, scope))
                return NOTHING
            case ast.Call():
                return self.call(node, scope)
            case ast.Attribute(value=base, attr=attribute):
                return self.attribute(self.value(base, scope), attribute)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                values = [self.value(element, scope) for element in elements]
                if any(isinstance(element, ast.Starred) for element in elements):
                    return replace(join(values), items=None)
                return collection_of(dict(enumerate(values)))
            case ast.Dict(keys=keys, values=elements):
                values = [self.value(element, scope) for element in elements]
                names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
                if None in names:
                    return replace(join(values), items=None)
                return collection_of(dict(zip(names, values, strict=True)))
            case ast.Subscript(value=base, slice=key):
                return self.subscript(self.value(base, scope), key, scope)
            case ast.JoinedStr(values=parts):
                return concatenated([self.value(part, scope) for part in parts], "")
            case ast.FormattedValue(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
                operands = [self.value(left, scope), self.value(right, scope)]
                if any(MODEL in operand.tags for operand in operands):  # lists of models
                    return replace(join(operands), items=None)
                return concatenated(operands, "/" if isinstance(operator, ast.Div) else "")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                both: list[Evaluation] = []
                return join([self.part(body, scope, both), self.part(orelse, scope, both)])
            case ast.BoolOp(values=[first, *others]):
                return join([self.value(first, scope), *(self.part(other, scope, [NO_STEP]) for other in others)])
            case ast.NamedExpr(target=target, value=value):
                result = self.value(value, scope)
                self.assign(target, result, scope)
                return result
            case ast.Lambda():
                return Value(code=node, scope=scope)
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                values = self.comprehension(node.generators, lambda inner: self.value(element, inner), scope)
                known = len(values) > 1
                return collection_of(dict(enumerate(values))) if known else replace(join(values), items=None)
            case ast.DictComp(key=key, value=element):
                pairs = self.comprehension(
                    node.generators,
                    lambda inner: collection_of({0: self.value(key, inner), 1: self.value(element, inner)}),
                    scope,
                )
                items: dict[object, Value] = {}
                for pair in pairs:
                    assert pair.items is not None
                    items[min(pair.items[0].texts, default=None)] = pair.items[1]
                return replace(collection_of(items), items=None if None in items else items)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return derived([self.value(child, scope) for child in children])

    def part(self, node: ast.expr, scope: Scope, parts: list[Evaluation]) -> Value:
        """Interprets a part of an expression of which one of several is computed: a step counts if each of them has it."""
        outer, first_loop, columns = self.evaluation, self.first_loop, self.columns
        self.evaluation = Evaluation(ast.Return(node), outer, True, parts, outer)
        self.first_loop, self.columns = len(self.loops), []
        parts.append(self.evaluation)
        self.evaluations.append(self.evaluation)
        value = self.value(node, scope)
        outer.data |= self.evaluation.data
        self.evaluation, self.first_loop, self.columns = outer, first_loop, columns
        return value

    def imported(self, name: str) -> Value:
        """A name that a star import may have defined."""
        names = [f"{module}.{name}" for module in self.modules]
        return Value(
            name=next((one for one in names if any(kind.fullmatch(one) for kind in vocabulary.STARRED)), name)
        )

    def comprehension(
        self, generators: list[ast.comprehension], element: Callable[[Scope], Value], scope: Scope
    ) -> list[Value]:
        first, *others = generators
        values = []
        elements = self.elements(self.value(first.iter, scope))
        self.repeats += 1
        for item in elements:
            inner = Scope(scope)
            self.assign(first.target, item, inner)
            for other in others:
                self.assign(other.target, join(self.elements(self.value(other.iter, inner))), inner)
            for condition in first.ifs:
                self.value(condition, inner)
            values.append(element(inner))
        self.repeats -= 1
        return values

    def attribute(self, base: Value, name: str) -> Value:
        if base.name:
            return Value(name=f"{base.name}.{name}")
        cls = base.instance or (base.code if isinstance(base.code, ast.ClassDef) else None)
        if cls is not None:
            found = self.member(cls, name)
            if found is not None:
                return found
        if NAMESPACE in base.tags and base.items is not None:
            return base.items.get(name, NOTHING)
        if MODEL in base.tags:
            return Value(tags=frozenset({MODEL})) if "estimator" in name or "model" in name else NOTHING
        return derived([base])

    def subscript(self, base: Value, key: ast.expr, scope: Scope) -> Value:
        index = self.value(key, scope)
        if base.items is not None:
            keys = [key.value] if isinstance(key, ast.Constant) else list(index.texts)
            if len(keys) == 1 and keys[0] in base.items:
                return base.items[keys[0]]
        if base.name:
            return NOTHING
        return replace(element_of(base), texts=frozenset())

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.set(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                elements = value.items or {}
                for index, one in enumerate(targets):
                    self.assign(one, elements.get(index, Value(tags=value.tags)), scope)
            case ast.Starred(value=inner):
                self.assign(inner, Value(tags=value.tags), scope)
            case ast.Attribute(value=base, attr=attribute):
                owner = self.value(base, scope)
                if owner.instance is not None:
                    self.classes[owner.instance].set(attribute, value)
                elif owner.built is not None:  # `model.fc = ...`
                    self.assign(base, self.complete(owner), scope)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                old = scope.get(name)
                keys = [key.value] if isinstance(key, ast.Constant) else list(self.value(key, scope).texts)
                known = old.items is not None and len(keys) == 1
                items = {**(old.items or {}), keys[0]: value} if known else None
                scope.set(name, replace(old, tags=old.tags | value.tags, items=items))

    def elements(self, iterable: Value) -> list[Value]:
        """The elements that a loop iterates over, one by one if known."""
        if READER in iterable.tags:
            return [self.read(iterable)]
        if iterable.items is not None and 0 < len(iterable.items) <= MAX_ELEMENTS and self.work <= MAX_WORK:
            if all(isinstance(key, str) for key in iterable.items):
                return [Value(texts=frozenset({str(key)})) for key in iterable.items]
            return list(iterable.items.values())
        return [element_of(iterable)]

    # Calls

    def call(self, node: ast.Call, scope: Scope) -> Value:
        receiver = NOTHING
        if isinstance(node.func, ast.Attribute):
            receiver = self.value(node.func.value, scope)
            callee = self.attribute(receiver, node.func.attr)
        else:
            callee = self.value(node.func, scope)
        arguments = [self.value(argument, scope) for argument in node.args]
        keywords = {keyword.arg or "**": self.value(keyword.value, scope) for keyword in node.keywords}
        everything = [*arguments, *keywords.values()]

        if vocabulary.MODELS.fullmatch(callee.name) and _is_headless(node):
            return Value(tags=frozenset({MODEL}))
        if callee.name:
            result = self.library(callee.name, arguments, keywords)
            if result is not None:
                return result
        if isinstance(callee.code, ast.ClassDef):
            return self.construct(callee, arguments, keywords)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "add" and receiver.built is not None:  # a layer
                self.assign(node.func.value, self.complete(receiver), scope)
                return NOTHING
            if node.func.attr in ADDS and receiver.instance is None:
                self.add(node.func.value, receiver, everything, scope)
                return NOTHING
            result = self.method(receiver, callee, node.func, arguments, keywords)
            if result is not None:
                return result
        elif callee.code is not None:
            return self.follow(callee, arguments, keywords)
        elif MODEL in callee.tags:
            # The forward pass of a network: only clear test data counts, because training calls it too.
            data = derived(everything)
            return self.predict(everything, batch=True) if TEST in data.tags else data
        if any(READER in value.tags for value in everything):  # json.load(file), csv, pickle, ...
            return self.read(join(value for value in everything if READER in value.tags))
        self.repeats += 1
        for value in everything:  # callbacks
            if isinstance(value.code, ast.FunctionDef | ast.Lambda):
                self.follow(value, [derived([receiver, *everything])], {})
        self.repeats -= 1
        return derived([receiver, *everything])

    def add(self, collection: ast.expr, old: Value, arguments: list[Value], scope: Scope) -> None:
        """Interprets `collection.append(value)` and similar calls."""
        items = old.items
        if items is not None and len(arguments) == 1 and len(items) < MAX_ELEMENTS:
            items = {**items, len(items): arguments[0]}
        else:
            items = None
        added = join([element_of(old), *arguments])
        self.assign(collection, Value(tags=added.tags, texts=added.texts, items=items), scope)

    def follow(self, callee: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Interpret the body of a function of the program with these arguments."""
        code = callee.code
        too_deep = code in self.calls or len(self.calls) >= MAX_CALLS or self.work > MAX_WORK
        if code is None or isinstance(code, ast.ClassDef) or too_deep:
            return derived([*arguments, *keywords.values()])
        scope = Scope(callee.scope)
        self.bind(code.args, arguments, keywords, scope, callee.scope or scope)
        self.calls.append(code)
        if isinstance(code, ast.Lambda):
            result = self.value(code.body, scope)
        else:
            place = self.parent, self.loops, self.returns, self.returned, self.conditional, self.hint, self.call_hint
            first_loop, columns = self.first_loop, self.columns
            self.parent, self.loops, self.returns, self.returned = self.evaluation, [*self.loops], [], []
            self.conditional, self.call_hint = False, self.hint
            if self.is_lazy(code):
                self.conditional, self.returns = True, [NO_STEP]
                self.first_loop, self.columns = len(self.loops), []
            self.run(code.body, scope)
            if self.falls_through(code.body, scope):
                self.returns.append(NO_STEP)
            result = join(self.returned)
            self.parent, self.loops, self.returns, self.returned = place[:4]
            self.conditional, self.hint, self.call_hint = place[4:]
            self.first_loop, self.columns = first_loop, columns
        self.calls.pop()
        return result

    def is_lazy(self, code: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a call only makes a coroutine or a generator, which may never run."""
        if code not in self.lazy:
            self.lazy[code] = isinstance(code, ast.AsyncFunctionDef) or any(map(_yields, code.body))
        return self.lazy[code]

    def bind(
        self,
        parameters: ast.arguments,
        arguments: list[Value],
        keywords: dict[str, Value],
        scope: Scope,
        definition: Scope,
    ) -> None:
        positional = [*parameters.posonlyargs, *parameters.args]
        defaults: list[ast.expr | None] = [
            *[None] * (len(positional) - len(parameters.defaults)),
            *parameters.defaults,
        ]
        for parameter, default in [
            *zip(positional, defaults, strict=True),
            *zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True),
        ]:
            fallback = NOTHING if default is None else self.value(default, definition)
            scope.set(parameter.arg, keywords.get(parameter.arg, fallback))
        for parameter, value in zip(positional, arguments, strict=False):
            scope.set(parameter.arg, value)
        if parameters.vararg is not None:
            rest = arguments[len(positional) :]
            scope.set(parameters.vararg.arg, collection_of(dict(enumerate(rest))))
        if parameters.kwarg is not None:
            scope.set(parameters.kwarg.arg, replace(join(keywords.values()), items=None))


def _yields(node: ast.AST) -> bool:
    if isinstance(node, DEFINITIONS | ast.Lambda):
        return False
    return isinstance(node, ast.Yield | ast.YieldFrom) or any(map(_yields, ast.iter_child_nodes(node)))


def _is_headless(call: ast.Call) -> bool:
    """Whether a pretrained network is created without its last layers, which others will replace."""
    return any(
        keyword.arg == "include_top" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
        for keyword in call.keywords
    )
