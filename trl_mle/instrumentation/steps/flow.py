"""Follows a program's data from statement to statement, and through calls of its own functions."""

import ast
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trl_mle.instrumentation.milestones import (
    MODEL_BUILT,
    MODEL_TRAINED,
    PREDICTIONS,
    TEST_DATA,
    TRAIN_DATA,
    dotted,
    imported_names,
)
from trl_mle.instrumentation.steps import names
from trl_mle.instrumentation.steps.calls import Call, Calls, Done
from trl_mle.instrumentation.steps.values import (
    NOTHING,
    Scope,
    Value,
    collection,
    concatenated,
    derived,
    element_of,
    join,
)


MAX_ELEMENTS = 8  # of a loop that is followed element by element
MAX_CALLS = 8  # depth of followed calls
MAX_WORK = 20_000  # expressions and statements, after which calls and loops are no longer followed
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Frame:
    """A call that is being followed."""

    dones: list[Done] = field(default_factory=list)  # of the statements around the current one
    exits: list[Done] = field(default_factory=list)  # what the call has done at each `return`
    returned: list[Value] = field(default_factory=list)
    uncertain: int = 0  # branches around the current statement

    def so_far(self) -> Done:
        return {milestone: statement for done in self.dones for milestone, statement in done.items()}


class Flow(Calls):
    """
    Interprets statements in the order in which they run. `evaluations` holds what a statement has done for certain when it
    completes, for each time that it is followed.
    """

    def __init__(self, constants: dict[str, bool], superseded: set[tuple[ast.AST, str]]):
        super().__init__(superseded)
        self.constants = constants
        self.evaluations: defaultdict[ast.stmt, list[Done]] = defaultdict(list)
        self.outer: dict[ast.stmt, ast.stmt] = {}  # the enclosing statement, or the calling one
        self.block: dict[ast.stmt, list[ast.stmt]] = {}
        self.on_test: set[ast.stmt] = set()  # statements that handle test data
        self.frame = Frame()
        self.calls: list[ast.AST] = []
        self.modules: list[str] = []  # with a star import
        self.work = 0

    # Statements

    def run(self, block: list[ast.stmt], scope: Scope) -> bool:
        """Follows the statements of a block; whether it ends by a jump."""
        for statement in block:
            self.work += 1
            self.block[statement] = block
            outer, before = self.statement, self.done
            self.outer[statement] = outer
            self.statement, self.done = statement, {}
            self.frame.dones.append(self.done)
            ends = self.follow_statement(statement, scope)
            self.frame.dones.pop()
            self.evaluations[statement].append(self.done)
            before.update(dict.fromkeys(self.done, statement))
            self.statement, self.done = outer, before
            if statement in self.on_test:
                self.on_test.add(outer)
            if ends:
                return True
        return False

    def one_of(self, *parts: Callable[[], object]) -> bool:
        """Follows parts of which one runs: what each of them does is done. Whether each ends by a jump."""
        before, results = self.done, []
        for part in parts:
            self.done = {}
            self.frame.dones.append(self.done)
            if part() is not True:
                results.append(self.done)
            self.frame.dones.pop()
        self.done = before
        self.done_by_all(results)
        return not results

    def done_by_all(self, results: list[Done]) -> None:
        for milestone in set.intersection(*map(set, results)) if results else ():
            self.done[milestone] = results[-1][milestone]

    def branches(self, blocks: list[list[ast.stmt]], scope: Scope) -> bool:
        self.frame.uncertain += 1
        ends = self.one_of(*(lambda block=block: self.run(block, scope) for block in blocks))
        self.frame.uncertain -= 1
        return ends

    def follow_statement(self, statement: ast.stmt, scope: Scope) -> bool:
        """Follows a statement; whether the rest of its block is unreachable."""
        match statement:
            case ast.Import() | ast.ImportFrom():
                scope.variables |= {name: Value(name=full) for name, full in imported_names(statement).items()}
                self.modules += [str(getattr(statement, "module", ""))] if statement.names[0].name == "*" else []
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                scope.variables[name] = Value(code=statement, scope=scope)
            case ast.ClassDef():
                self.define(statement, scope)
            case ast.Assign(targets=targets, value=node) | ast.AnnAssign(target=targets, value=ast.expr() as node):
                targets = targets if isinstance(targets, list) else [targets]
                lazy = isinstance(node, ast.GeneratorExp) and isinstance(targets[0], ast.Name)
                value = self.part(node, scope) if lazy else self.value(node, scope)  # nothing has run yet
                for target in targets:
                    self.assign(target, value, scope)
            case ast.AugAssign(target=target, op=ast.Sub(), value=ast.BinOp(op=ast.Mult()) as node) if self.loops:
                # Gradient descent; data themselves are only scaled
                if TRAIN_DATA in self.value(node, scope).tags and TRAIN_DATA not in self.value(target, scope).tags:
                    self.reach(MODEL_TRAINED, statement, batch=True)
            case ast.Expr(value=ast.GeneratorExp()):
                pass  # nothing runs
            case ast.Return(value=result):
                self.frame.returned.append(self.value(result, scope) if result else NOTHING)
                self.frame.exits.append(self.frame.so_far())
                return True
            case ast.For() | ast.AsyncFor() | ast.While():
                self.loop(statement, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                if (certain := self.certain(test)) is not None:
                    return self.run(body if certain else orelse, scope)
                self.value(test, scope)
                return self.branches([body, orelse], scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                return self.with_block(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                ends = self.branches([[*body, *orelse], *(handler.body for handler in handlers)], scope)
                return self.run(finalbody, scope) or ends
            case ast.Match(subject=subject, cases=cases):
                self.value(subject, scope)
                total = any(isinstance(case.pattern, ast.MatchAs) and not case.pattern.pattern for case in cases)
                return self.branches([*(case.body for case in cases), *([] if total else [[]])], scope)
            case _:
                values = [
                    self.value(node, scope) for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)
                ]
                exits = isinstance(statement, ast.Expr) and "exit" in values[0].tags
                return exits or isinstance(statement, ast.Raise | ast.Break | ast.Continue)
        return False

    def certain(self, test: ast.expr) -> bool | None:
        """Whether a condition holds, if certain."""
        match test:
            case ast.Constant(value):
                return bool(value)
            case ast.Name(name):
                return self.constants.get(name)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.certain(operand)
                return None if inner is None else not inner
            case ast.Compare(left=ast.Name("__name__"), ops=[ast.Eq()]):
                return True
        return None

    def loop(self, statement: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> None:
        elements = [NOTHING]
        if isinstance(statement, ast.While):
            self.value(statement.test, scope)
        else:
            elements = self.elements(self.value(statement.iter, scope), statement.iter)
        self.loops.append((statement, self.done))
        for element in elements:
            if not isinstance(statement, ast.While):
                self.assign(statement.target, element, scope)
            self.one_of(lambda: self.run(statement.body, scope))
        self.loops.pop()
        self.run(statement.orelse, scope)

    def with_block(self, items: list[ast.withitem], body: list[ast.stmt], scope: Scope) -> bool:
        files = [self.value(item.context_expr, scope) for item in items]
        for item, file in zip(items, files, strict=True):
            if item.optional_vars is not None:
                self.assign(item.optional_vars, file, scope)
        ends = self.run(body, scope)
        for item, file in zip(items, files, strict=True):
            if "writer" in file.tags:  # complete once it is closed
                self.write(file, item)
        return ends

    def define(self, cls: ast.ClassDef, scope: Scope) -> None:
        """A class has its bases' members, and their kind: `network`. A loss is a `Module` too, but not the model."""
        bases = [self.value(base, scope) for base in cls.bases]
        members = Scope(scope)
        for base in reversed([base for base in bases if base.members is not None]):
            members.variables |= base.members.variables if base.members else {}
        self.run(cls.body, members)
        is_network = any("network" in base.tags or names.NETWORKS.fullmatch(base.name) for base in bases)
        tags = frozenset({"network"} if is_network and "loss" not in cls.name.lower() else ())
        scope.variables[cls.name] = Value(tags=tags, code=cls, members=members)

    # Expressions

    def value(self, node: ast.expr, scope: Scope) -> Value:
        self.work += 1
        value = self.computed(node, scope)
        if TEST_DATA in value.tags:
            self.on_test.add(self.statement)
        return value

    def part(self, node: ast.expr, scope: Scope) -> Value:
        """An expression that may not be evaluated: nothing that it does is done."""
        values: list[Value] = []
        loops, self.loops = self.loops, []
        self.one_of(lambda: values.append(self.value(node, scope)), lambda: None)
        self.loops = loops
        return values[0]

    def computed(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Constant(value=str(text)):
                return Value(texts=frozenset({text}))
            case ast.Name(id=name):
                value = scope.get(name)
                starred = [f"{module}.{name}" for module in self.modules] if value.name == name else []
                known = (one for one in starred if any(kind.fullmatch(one) for kind in names.FUNCTIONS.values()))
                return Value(name=next(known, name)) if starred else value
            case ast.Call():
                return self.call(node, scope)
            case ast.Attribute(value=base, attr=name):
                return self.attribute(self.value(base, scope), name)
            case ast.Subscript(value=base, slice=key):
                return self.subscript(self.value(base, scope), key, scope)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                keys = [None if isinstance(one, ast.Starred) else index for index, one in enumerate(elements)]
                return collection({key: self.value(one, scope) for key, one in zip(keys, elements, strict=True)})
            case ast.Dict(keys=keys, values=elements):
                constants = [key.value if isinstance(key, ast.Constant) else None for key in keys]
                return collection({key: self.value(one, scope) for key, one in zip(constants, elements, strict=True)})
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, scope)
            case ast.JoinedStr(values=parts):
                return concatenated([self.value(part, scope) for part in parts], "")
            case ast.FormattedValue(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Mod()) if (template := self.value(left, scope)).texts:
                return template
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
                return concatenated(
                    [self.value(one, scope) for one in (left, right)], "/" * isinstance(operator, ast.Div)
                )
            case ast.IfExp(test=first, body=body, orelse=orelse):
                self.value(first, scope)
                return join([self.part(body, scope), self.part(orelse, scope)])
            case ast.BoolOp(values=[first, *others]):
                return join([self.value(first, scope), *(self.part(other, scope) for other in others)])
            case ast.NamedExpr(target=target, value=inner):
                value = self.value(inner, scope)
                self.assign(target, value, scope)
                return value
            case ast.Lambda():
                return Value(code=node, scope=scope)
            case ast.Yield(value=ast.expr() as inner) | ast.YieldFrom(value=inner):
                self.frame.returned.append(self.value(inner, scope))
                return NOTHING
        return derived(
            [self.value(child, scope) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        )

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Value:
        first, *others = node.generators
        items: dict[object, Value] = {}
        elements = self.elements(self.value(first.iter, scope), first.iter)
        self.repeats += 1
        for index, element in enumerate(elements):
            inner = Scope(scope)
            self.assign(first.target, element, inner)
            for other in others:
                self.assign(other.target, join(self.elements(self.value(other.iter, inner), other.iter)), inner)
            key = min(self.value(node.key, inner).texts, default=None) if isinstance(node, ast.DictComp) else index
            result = self.value(node.value if isinstance(node, ast.DictComp) else node.elt, inner)
            items[key if len(elements) > 1 else None] = result
        self.repeats -= 1
        return collection(items)

    def attribute(self, base: Value, name: str) -> Value:
        if base.name:
            return Value(name=f"{base.name}.{name}")
        if base.members is not None and name in base.members.variables:
            return base.members.variables[name]
        if "model" in base.tags:
            return Value(tags=frozenset({"model"} if "estimator" in name or "model" in name else ()))
        return derived([base])

    def keys(self, key: ast.expr, scope: Scope) -> list[object]:
        index = self.value(key, scope)
        return [key.value] if isinstance(key, ast.Constant) else list(index.texts)

    def subscript(self, base: Value, key: ast.expr, scope: Scope) -> Value:
        keys = self.keys(key, scope)
        if base.items is not None and len(keys) == 1 and keys[0] in base.items:
            return base.items[keys[0]]
        return NOTHING if base.name else replace(element_of(base), texts=frozenset())

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                old = scope.variables.get(name, NOTHING) if self.frame.uncertain else NOTHING
                scope.variables[name] = join([old, value])
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for index, one in enumerate(targets):
                    self.assign(one, (value.items or {}).get(index, Value(tags=value.tags)), scope)
            case ast.Attribute(value=base, attr=name):
                owner = self.value(base, scope)
                if owner.members is not None:
                    owner.members.variables[name] = value
                elif owner.origin is not None:  # `model.fc = ...`
                    self.assign(base, self.extend(owner, target), scope)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                old, keys = scope.get(name), self.keys(key, scope)
                items = {**old.items, keys[0]: value} if old.items is not None and len(keys) == 1 else None
                scope.variables[name] = replace(old, tags=old.tags | value.tags, items=items)

    def elements(self, iterable: Value, node: ast.AST) -> list[Value]:
        """The elements that a loop iterates over, one by one if known."""
        if "reader" in iterable.tags:
            return [self.read(iterable, node)]
        if iterable.items and len(iterable.items) <= MAX_ELEMENTS and self.work <= MAX_WORK:
            if all(isinstance(key, str) for key in iterable.items):
                return [Value(texts=frozenset({key})) for key in iterable.items]
            return list(iterable.items.values())
        return [element_of(iterable)]

    # Calls

    def call(self, node: ast.Call, scope: Scope) -> Value:
        receiver, method = NOTHING, ""
        if isinstance(node.func, ast.Attribute):
            receiver, method = self.value(node.func.value, scope), node.func.attr
            callee = self.attribute(receiver, method)
        else:
            callee = self.value(node.func, scope)
        keywords = {keyword.arg or "**": self.value(keyword.value, scope) for keyword in node.keywords}
        call = Call(node, [self.value(argument, scope) for argument in node.args], keywords)
        if callee.name in names.EXITS:
            return Value(tags=frozenset({"exit"}))
        if callee.name and (result := self.library(callee.name, call)) is not None:
            return result
        if isinstance(callee.code, ast.ClassDef):
            return self.construct(callee, call)
        if callee.code is not None:
            return self.own(receiver, callee, method, call)
        if method in names.ADDS and isinstance(node.func, ast.Attribute):
            added = self.extend(receiver, node) if receiver.origin else _added(receiver, call.everything)
            self.assign(node.func.value, added, scope)
            return NOTHING
        if method and (result := self.method(receiver, method, call)) is not None:
            return result
        if not method and "model" in callee.tags and any(TEST_DATA in value.tags for value in call.everything):
            return self.predict(call.everything, node, batch=True)  # training calls a network, too
        readers = [value for value in call.everything if "reader" in value.tags]
        if readers:  # json.load(file), csv, pickle, ...
            return self.read(join(readers), node)
        data = derived([receiver, *call.everything])
        self.repeats += 1
        for value in call.everything:  # callbacks
            if isinstance(value.code, FUNCTIONS):
                self.follow(value, [data], {})
        self.repeats -= 1
        return data

    def construct(self, cls: Value, call: Call) -> Value:
        """Creates an instance of one of the program's classes; a model, if it is a network or has `fit` and `predict`."""
        members = cls.members.variables if cls.members else {}
        is_network = "network" in cls.tags
        is_model = is_network or ("fit" in members and names.PREDICTS & members.keys())
        tags = derived(call.everything if not is_network else []).tags | ({"model"} if is_model else set())
        instance = Value(tags=tags, members=cls.members)
        if "__init__" in members and not is_network:
            self.follow(members["__init__"], [instance, *call.values], call.keywords)
        if is_model:
            self.reach(MODEL_BUILT, call.node)
        return instance

    def own(self, receiver: Value, callee: Value, name: str, call: Call) -> Value:
        """A function of the program. `fit` and `predict` of its models are steps, whatever they do."""
        is_static = "staticmethod" in map(dotted, getattr(callee.code, "decorator_list", []))
        bound = [receiver, *call.values] if receiver.members and not is_static else call.values
        result = self.follow(callee, bound, call.keywords)
        if "model" in receiver.tags and name in names.FITS:
            if MODEL_TRAINED not in self.done:
                self.reach(MODEL_TRAINED, call.node)
            return receiver
        if "model" in receiver.tags and name in names.PREDICTS and PREDICTIONS not in self.done:
            self.predict(call.values, call.node)
        return result

    def follow(self, callee: Value, values: list[Value], keywords: dict[str, Value]) -> Value:
        """Follows the body of a function of the program with these arguments."""
        code = callee.code
        if (
            code in self.calls
            or len(self.calls) >= MAX_CALLS
            or self.work > MAX_WORK
            or isinstance(code, ast.ClassDef)
        ):
            return derived([*values, *keywords.values()])
        scope = Scope(callee.scope, self.bound(code.args, values, callee.scope or Scope()) | keywords)
        self.calls.append(code)
        if isinstance(code, ast.Lambda):
            result = self.value(code.body, scope)
        else:
            before, done, loops = self.frame, self.done, self.loops
            self.done = {}
            self.frame = Frame([self.done])
            is_lazy = isinstance(code, ast.AsyncFunctionDef) or any(map(_yields, code.body))  # it may never run
            self.loops = [] if is_lazy else loops
            if not self.run(code.body, scope) or is_lazy:
                self.frame.exits.append({} if is_lazy else self.done)
            exits, result = self.frame.exits, join(self.frame.returned)
            self.frame, self.done, self.loops = before, done, loops
            self.done_by_all(exits)
        self.calls.pop()
        return result

    def bound(self, parameters: ast.arguments, values: list[Value], definition: Scope) -> dict[str, Value]:
        """The variables of a call, from defaults and positional arguments."""
        positional = [*parameters.posonlyargs, *parameters.args]
        first = len(positional) - len(parameters.defaults)
        defaults = zip(
            [*positional[first:], *parameters.kwonlyargs], [*parameters.defaults, *parameters.kw_defaults], strict=True
        )
        bound = {
            one.arg: NOTHING
            for one in [*positional, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
            if one
        }
        bound |= {one.arg: self.value(node, definition) for one, node in defaults if node is not None}
        return bound | {one.arg: value for one, value in zip(positional, values, strict=False)}


def _added(old: Value, values: list[Value]) -> Value:
    """A list or dict to which these were added."""
    if old.items is not None and len(values) == 1 and len(old.items) < MAX_ELEMENTS:
        return collection({**old.items, len(old.items): values[0]})
    return replace(join([element_of(old), *values]), items=None)


def _yields(node: ast.AST) -> bool:
    if isinstance(node, FUNCTIONS | ast.ClassDef):
        return False
    return isinstance(node, ast.Yield | ast.YieldFrom) or any(map(_yields, ast.iter_child_nodes(node)))
