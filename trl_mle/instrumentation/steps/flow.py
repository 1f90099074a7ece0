"""Follows a program's data from statement to statement, and through calls of its own functions."""

import ast
from collections import defaultdict
from dataclasses import replace

from trl_mle.instrumentation.milestones import MODEL_BUILT, MODEL_TRAINED, TEST_DATA, TRAIN_DATA, imported_names
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


MAX_ELEMENTS = 8  # of a loop that is followed element by element, and of star imports
MAX_CALLS = 8  # depth of followed calls
MAX_WORK = 20_000  # expressions and statements, after which calls and loops are no longer followed
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Flow(Calls):
    """Interprets statements as they run; `evaluations` holds what one has done for certain, each time."""

    def __init__(self, constants: dict[str, bool], superseded: set[tuple[ast.AST, str]]):
        super().__init__(superseded)
        self.constants = constants
        self.evaluations: defaultdict[ast.stmt, list[Done]] = defaultdict(list)
        self.outer: dict[ast.stmt, ast.stmt] = {}  # the enclosing statement, or the calling one
        self.block: dict[ast.stmt, list[ast.stmt]] = {}
        self.on_test: set[ast.stmt] = set()  # statements that handle test data
        self.returned: list[Value] = []  # by the function that is followed
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
            ends = self.follow_statement(statement, scope)
            self.evaluations[statement].append(self.done)
            before.update(dict.fromkeys(self.done, statement))
            self.statement, self.done = outer, before
            if ends:
                return not isinstance(statement, ast.Return)  # what precedes it is done when the function returns
        return False

    def branches(self, blocks: list[list[ast.stmt]], scope: Scope) -> bool:
        """Follows blocks of which one runs: what each of them does is done. Returns whether each ends by a jump."""
        before, results = self.done, []
        for block in blocks:
            self.done = {}
            if not self.run(block, scope):
                results.append(self.done)
        self.done = before
        for milestone in set.intersection(*map(set, results)) if results else ():
            self.done[milestone] = results[-1][milestone]
        return not results

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
                value = self.value(node, scope)
                for target in targets if isinstance(targets, list) else [targets]:
                    self.assign(target, value, scope)
            case ast.AugAssign(target=target, op=ast.Sub(), value=ast.BinOp(op=ast.Mult()) as node) if self.loops:
                # Gradient descent; data themselves are only scaled
                if TRAIN_DATA in self.value(node, scope).tags and TRAIN_DATA not in self.value(target, scope).tags:
                    self.reach(MODEL_TRAINED, statement, batch=True)
            case ast.Return(value=result):
                self.returned.append(self.value(result, scope) if result else NOTHING)
                return True
            case ast.For() | ast.AsyncFor() | ast.While():
                self.loop(statement, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                if isinstance(test, ast.Name) and test.id in self.constants:
                    return self.run(body if self.constants[test.id] else orelse, scope)
                self.value(test, scope)
                return self.branches([body, orelse], scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                return self.with_block(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                ends = self.branches([[*body, *orelse], *(handler.body for handler in handlers)], scope)
                return self.run(finalbody, scope) or ends
            case _:
                values = [
                    self.value(node, scope) for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)
                ]
                exits = isinstance(statement, ast.Expr) and "exit" in values[0].tags
                return exits or isinstance(statement, ast.Raise | ast.Break | ast.Continue)
        return False

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
            self.branches([statement.body], scope)
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
        members = Scope(scope)
        self.run(cls.body, members)
        is_network = any(names.NETWORKS.fullmatch(self.value(base, scope).name) for base in cls.bases)
        scope.variables[cls.name] = Value(tags=frozenset({"network"} if is_network else ()), code=cls, members=members)

    # Expressions

    def value(self, node: ast.expr, scope: Scope) -> Value:
        self.work += 1
        value = self.computed(node, scope)
        if TEST_DATA in value.tags:
            self.on_test.add(self.statement)
        return value

    def computed(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Constant(value=str(text)):
                return Value(texts=frozenset({text}))
            case ast.Name(id=name):
                value = scope.get(name)
                if value.name == name:  # perhaps from a star import
                    starred = [f"{module}.{name}" for module in self.modules[:MAX_ELEMENTS]]
                    return Value(name=next(filter(names.kind_of, starred), name))
                return value
            case ast.Call():
                return self.call(node, scope)
            case ast.Attribute(value=base, attr=name):
                return self.attribute(self.value(base, scope), name)
            case ast.Subscript(value=base, slice=key):
                self.value(key, scope)
                return replace(element_of(self.value(base, scope)), texts=frozenset())
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return collection([self.value(one, scope) for one in elements])
            case ast.Dict(keys=keys, values=elements):
                constants = [key.value if isinstance(key, ast.Constant) else None for key in keys]
                return collection({key: self.value(one, scope) for key, one in zip(constants, elements, strict=True)})
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, scope)
            case ast.JoinedStr(values=parts):
                return concatenated([self.value(part, scope) for part in parts], "")
            case ast.FormattedValue(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
                separator = "/" if isinstance(operator, ast.Div) else ""
                return concatenated([self.value(one, scope) for one in (left, right)], separator)
            case ast.IfExp() | ast.BoolOp():  # not all of it is evaluated, so nothing that it does counts
                done, self.done = self.done, {}
                value = join(self.value(one, scope) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
                self.done = done
                return value
            case ast.Lambda():
                return Value(code=node, scope=scope)
            case ast.Yield(value=ast.expr() as inner) | ast.YieldFrom(value=inner):
                self.returned.append(self.value(inner, scope))
                return NOTHING
        return derived([self.value(one, scope) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)])

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
            result = self.value(node.value if isinstance(node, ast.DictComp) else node.elt, inner)
            items[index if len(elements) > 1 else None] = result
        self.repeats -= 1
        return collection(items)

    def attribute(self, base: Value, name: str) -> Value:
        if base.name and len(base.name) <= names.MAX_LENGTH:  # a loop can append to it
            return Value(name=f"{base.name}.{name}")
        if base.members is not None and name in base.members.variables:
            return base.members.variables[name]
        return derived([base])

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.variables[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for index, one in enumerate(targets):
                    self.assign(one, (value.items or {}).get(index, Value(tags=value.tags)), scope)
            case ast.Attribute(value=base, attr=name):
                owner = self.value(base, scope)
                if owner.members is not None:
                    owner.members.variables[name] = value
                elif owner.origin is not None:  # `model.fc = ...`
                    self.assign(base, self.extend(owner, target), scope)

    def elements(self, iterable: Value, node: ast.AST) -> list[Value]:
        """The elements that a loop iterates over, one by one if known."""
        if "reader" in iterable.tags:
            return [self.read(iterable, node)]
        if iterable.items and len(iterable.items) <= MAX_ELEMENTS and self.work <= MAX_WORK:
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
            bound = [receiver, *call.values] if receiver.members else call.values
            return self.follow(callee, bound, call.keywords)
        if method in names.ADDS and isinstance(node.func, ast.Attribute):
            added = replace(join([element_of(receiver), *call.everything]), items=None)
            extended = self.extend(receiver, node) if receiver.origin else added
            if not any(isinstance(one, ast.Call) for one in ast.walk(node.func.value)):  # which are evaluated once
                self.assign(node.func.value, extended, scope)
            return NOTHING
        if method and (result := self.method(receiver, method, call)) is not None:
            return result
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
        """An instance of one of the program's classes; a model, if it is a network or has `fit` and `predict`."""
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

    def follow(self, callee: Value, values: list[Value], keywords: dict[str, Value]) -> Value:
        """Follows the body of a function of the program with these arguments."""
        code = callee.code
        is_function = isinstance(code, FUNCTIONS)
        if not is_function or code in self.calls or len(self.calls) >= MAX_CALLS or self.work > MAX_WORK:
            return derived([*values, *keywords.values()])
        scope = Scope(callee.scope, self.bound(code.args, values, callee.scope or Scope()) | keywords)
        self.calls.append(code)
        if isinstance(code, ast.Lambda):
            result = self.value(code.body, scope)
        else:
            returned, done, self.returned, self.done = self.returned, self.done, [], {}
            self.run(code.body, scope)
            if len(self.returned) < 2:  # otherwise it may have ended earlier
                done.update(self.done)
            result, self.returned, self.done = join(self.returned), returned, done
        self.calls.pop()
        return result

    def bound(self, parameters: ast.arguments, values: list[Value], definition: Scope) -> dict[str, Value]:
        """The variables of a call, from defaults and positional arguments."""
        positional = [*parameters.posonlyargs, *parameters.args]
        lacking = [None] * (len(positional) - len(parameters.defaults))
        defaults = [*lacking, *parameters.defaults, *parameters.kw_defaults]
        bound = {
            one.arg: self.value(node, definition) if node is not None else NOTHING
            for one, node in zip([*positional, *parameters.kwonlyargs], defaults, strict=True)
        }
        return bound | {one.arg: value for one, value in zip(positional, values, strict=False)}
