"""Follows a program's data from statement to statement."""

import ast
from dataclasses import replace

from trl_mle.instrumentation.milestones import MODEL_TRAINED, dotted, imported_names
from trl_mle.instrumentation.steps.expressions import Expressions
from trl_mle.instrumentation.steps.values import NO_STEP, NOTHING, Evaluation, Scope, Value, concatenated, join
from trl_mle.instrumentation.steps.vocabulary import EXITS, TRAIN, WRITER


class Interpreter(Expressions):
    """Interprets a program, and records the evaluations of its statements with the milestones they reach."""

    def __init__(self, constants: dict[str, bool]) -> None:
        super().__init__()
        self.constants = constants
        self.block: dict[ast.stmt, list[ast.stmt]] = {}
        self.blocks: list[list[ast.stmt]] = []  # in the order of execution

    def run(self, block: list[ast.stmt], scope: Scope) -> None:
        reached: list[ast.stmt] = []
        self.blocks.append(reached)
        outer = self.evaluation
        for statement in block:
            self.work += 1
            reached.append(statement)
            self.block[statement] = block
            # After a `return` within a loop, the loop does not complete
            earlier = () if self.parent in self.loops else tuple(self.returns)
            self.evaluation = Evaluation(statement, self.parent, self.conditional, self.returns, outer, earlier)
            self.evaluations.append(self.evaluation)
            self.hint = self.call_hint if isinstance(statement, ast.Return) else ""
            self.statement(statement, scope)
            if self.ends(statement, scope):
                break
        self.evaluation = outer

    def ends(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether the rest of the block is unreachable."""
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return True
            case ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()) as function)):
                return self.value(function, scope).name in EXITS
        return False

    def falls_through(self, block: list[ast.stmt], scope: Scope) -> bool:
        if not block:
            return True
        match block[-1]:
            case ast.If(body=body, orelse=orelse):
                blocks = [body, orelse]
            case ast.With(body=body) | ast.AsyncWith(body=body):
                blocks = [body]
            case ast.Try(body=body, handlers=handlers, orelse=orelse):
                blocks = [orelse or body, *(handler.body for handler in handlers)]
            case ast.Match(cases=[*_, ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None)] as cases):
                blocks = [case.body for case in cases]
            case ast.While(test=test, body=body) if self.certain(test):
                return any(isinstance(node, ast.Break) for statement in body for node in ast.walk(statement))
            case last:
                return not self.ends(last, scope)
        return any(self.falls_through(inner, scope) for inner in blocks)

    def certain(self, test: ast.expr) -> bool | None:
        """Whether a condition holds, if certain."""
        match test:
            case ast.Constant(value):
                return bool(value)
            case ast.Name(name) if name in self.constants:
                return self.constants[name]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.certain(operand)
                return None if inner is None else not inner
        return None

    def branches(self, blocks: list[list[ast.stmt]], scope: Scope) -> None:
        """Interprets blocks of which exactly one runs."""
        before, conditional = dict(scope.variables), self.conditional
        after = []
        self.conditional = True
        for block in blocks:
            scope.variables = dict(before) if block else before
            self.run(block, scope)
            after.append(scope.variables)
        self.conditional = conditional
        # Only these are joined: a program may have many variables and many branches
        changed = dict.fromkeys(
            name
            for variables in after
            if variables is not before
            for name, value in variables.items()
            if before.get(name) is not value
        )
        joined = {name: join(variables[name] for variables in after if name in variables) for name in changed}
        scope.variables = before | joined

    def statement(self, statement: ast.stmt, scope: Scope) -> None:
        match statement:
            case ast.ImportFrom(module=module, names=[ast.alias(name="*")]):
                self.modules.append(str(module))
            case ast.Import() | ast.ImportFrom():
                for name, full_name in imported_names(statement).items():
                    scope.set(name, Value(name=full_name))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                scope.set(name, Value(code=statement, scope=scope))
            case ast.ClassDef(name=name, body=body):
                self.bases[statement] = [self.value(base, scope) for base in statement.bases]
                self.classes[statement] = Scope(scope)
                self.run(body, self.classes[statement])
                scope.set(name, Value(code=statement, scope=scope))
            case ast.Global(names=names):
                scope.global_names.update(names)
            case ast.Assign(targets=[ast.Tuple() as left], value=ast.Tuple() as right) if len(left.elts) == len(
                right.elts
            ):
                pairs = list(zip(left.elts, right.elts, strict=True))
                assigned = [self.assigned_value(target, value, scope) for target, value in pairs]
                for target, one in zip(left.elts, assigned, strict=True):
                    self.assign(target, one, scope)
            case ast.Assign(targets=targets, value=value):
                one = self.assigned_value(targets[0], value, scope)
                for target in targets:
                    self.assign(target, one, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.assigned_value(target, value, scope), scope)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                parts = [self.value(target, scope), self.value(value, scope)]
                added = replace(join(parts), texts=concatenated(parts, "").texts, items=None)
                self.assign(target, added, scope)
            case ast.AugAssign(target=target, op=ast.Sub(), value=ast.BinOp(op=ast.Mult()) as value) if self.loops:
                step, old = self.value(value, scope), self.value(target, scope)
                if TRAIN in step.tags and TRAIN not in old.tags:  # gradient descent; data themselves are only scaled
                    self.reach(MODEL_TRAINED, batch=True)
            case ast.Expr(value=ast.GeneratorExp()):
                pass  # nothing runs
            case ast.Return(value=result):
                self.returns.append(self.evaluation)
                self.returned.append(self.value(result, scope) if result else NOTHING)
            case (
                ast.For(target=target, iter=iterable, body=body, orelse=orelse)
                | ast.AsyncFor(target=target, iter=iterable, body=body, orelse=orelse)
            ):
                columns = len(self.columns)
                if _stores_by(target, body):
                    self.columns.append(self.evaluation)
                self.loop(target, self.elements(self.value(iterable, scope)), body, scope)
                del self.columns[columns:]
                self.run(orelse, scope)
            case ast.While(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                self.loops.append(self.evaluation)
                self.run(body, scope)
                self.loops.pop()
                self.run(orelse, scope)
            case ast.If(test=test, body=body, orelse=orelse) if (certain := self.certain(test)) is not None:
                self.run(body if certain else orelse, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                self.branches([body, orelse], scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                self.with_block(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                conditional = self.conditional
                self.conditional |= any(not isinstance(handler.body[-1], ast.Raise) for handler in handlers)
                self.run(body, scope)
                self.run(orelse, scope)
                self.conditional = conditional
                self.branches([[], *(handler.body for handler in handlers)], scope)
                self.run(finalbody, scope)
            case ast.Match(subject=subject, cases=cases):
                self.value(subject, scope)
                self.branches([[], *(case.body for case in cases)], scope)
            case _:
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)

    def assigned_value(self, target: ast.expr, value: ast.expr, scope: Scope) -> Value:
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                self.hint = name
            case _:
                self.hint = ""
        if isinstance(target, ast.Name) and isinstance(value, ast.GeneratorExp):
            return self.part(value, scope, [NO_STEP])  # nothing has run yet
        return self.value(value, scope)

    def loop(self, target: ast.expr, elements: list[Value], body: list[ast.stmt], scope: Scope) -> None:
        parent, conditional = self.parent, self.conditional
        self.loops.append(self.evaluation)
        if len(elements) > 1:
            self.parent, self.conditional = self.evaluation, False
        for element in elements:
            self.assign(target, element, scope)
            self.run(body, scope)
        self.loops.pop()
        self.parent, self.conditional = parent, conditional

    def with_block(self, items: list[ast.withitem], body: list[ast.stmt], scope: Scope) -> None:
        written = []
        for item in items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
                name = dotted(item.optional_vars)
                used = any(isinstance(node, ast.Name) and node.id == name for line in body for node in ast.walk(line))
                if WRITER in value.tags and used:
                    written.append(value)
        self.run(body, scope)
        for value in written:
            self.write(value)


def _stores_by(target: ast.expr, body: list[ast.stmt]) -> bool:
    """Whether a loop stores something under its variable, `predictions[column] = ...`."""
    return isinstance(target, ast.Name) and any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and any(isinstance(inner, ast.Name) and inner.id == target.id for inner in ast.walk(node.slice))
        for statement in body
        for node in ast.walk(statement)
    )
