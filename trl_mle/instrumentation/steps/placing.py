"""Chooses where to place prints: after statements that complete a step in every call and every loop iteration."""

import ast
from collections import Counter

from trl_mle.instrumentation.milestones import IMPORTS, PREDICTIONS, SUBMISSION, TEST_DATA, TRAIN_DATA
from trl_mle.instrumentation.steps.abstract_interpreter import Interpreter
from trl_mle.instrumentation.steps.values import Evaluation, Scope
from trl_mle.instrumentation.steps.vocabulary import ADDS, DEFINITIONS, ROW_WRITES, TEST
from trl_mle.instrumentation.verify import bound_names


def find_steps(tree: ast.Module) -> list[tuple[int, str]]:
    """Finds the statements of a program after which milestones are reached: start line and milestone. None if its functions
    call each other in expressions that are nested too deeply to follow."""
    flow = Interpreter(_constants(tree))
    try:
        flow.run(tree.body, Scope())
    except RecursionError:
        return []
    by_statement: dict[ast.stmt, list[Evaluation]] = {}
    for evaluation in flow.evaluations:
        by_statement.setdefault(evaluation.statement, []).append(evaluation)
    _lift(by_statement)
    if not flow.counts[PREDICTIONS]:
        _predict_by_rule(flow, by_statement)
    steps = {
        (statement.lineno, milestone)
        for statement, evaluations in by_statement.items()
        for milestone in evaluations[0].milestones
    }
    for block in flow.blocks:
        imports = [statement for statement in block if _imports(statement)]
        if imports:
            steps.add((imports[-1].lineno, IMPORTS))
            break
    return sorted(steps)


def _constants(tree: ast.Module) -> dict[str, bool]:
    """Names that are bound exactly once, to a constant, with its truth value."""
    bound = Counter(name for node in ast.walk(tree) for name in bound_names(node))
    constants = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value)) if bound[name] == 1:
                constants[name] = bool(value)
    return constants


def _predict_by_rule(flow: Interpreter, by_statement: dict[ast.stmt, list[Evaluation]]) -> None:
    """
    Predictions without a known model: by rules, constants, or the program's own models. They are complete where the
    submitted values were last changed, if these are computed from the test data or assigned to a column.
    """

    def within(statement: ast.stmt) -> list[Evaluation]:
        inner = [node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]
        return [evaluation for node in inner for evaluation in by_statement.get(node, [])]

    def loads(evaluations: list[Evaluation]) -> bool:
        return any({TRAIN_DATA, TEST_DATA} & evaluation.milestones for evaluation in evaluations)

    def predicts(statement: ast.stmt) -> bool:
        own, inner = by_statement[statement], within(statement)
        if loads(inner) or (loads(own) and not isinstance(statement, ast.For)):  # a loop may read row by row
            return False
        return _fills_column(statement) or any(TEST in evaluation.data for evaluation in [*own, *inner])

    submissions = {e.statement: e for e in flow.evaluations if SUBMISSION in e.milestones}
    changed: dict[ast.stmt, set[str]] = {}
    for submission in submissions.values():
        place: Evaluation | None = submission
        while place is not None:
            if place.statement not in flow.block:  # a part of an expression
                place = place.outer
                continue
            names = {node.id for node in ast.walk(place.statement) if isinstance(node, ast.Name)}
            block = flow.block[place.statement]
            before = block[: block.index(place.statement)]
            changed |= {statement: _changed(statement) for statement in before if statement not in changed}
            last = next((statement for statement in reversed(before) if changed[statement] & names), None)
            if last is not None and predicts(last):
                for evaluation in by_statement[last]:
                    evaluation.milestones.add(PREDICTIONS)
            elif any(TEST_DATA in evaluation.milestones for evaluation in within(place.statement)):
                place.milestones.add(PREDICTIONS)  # row by row, from one file into the other
            elif last is None:
                place = place.outer
                continue
            break


def _changed(statement: ast.stmt) -> set[str]:
    """Names of variables that a statement binds or changes in place, except for selections of rows or columns."""
    names: set[str] = set()
    is_selection = isinstance(statement, ast.Assign) and _selects(statement.value)
    for node in ast.walk(statement) if not isinstance(statement, DEFINITIONS) else ():
        match node:
            case ast.Name(name, ctx=ast.Store()) if not is_selection:
                names.add(name)
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                names.add(_base(node))
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in ADDS | ROW_WRITES:
                names.add(_base(value))
    return names


def _selects(value: ast.expr) -> bool:
    """Whether it is a selection of rows or columns, `table[["id"]]`, or a copy of one."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="copy")):
            return _selects(inner)
    return isinstance(value, ast.Subscript)


def _base(node: ast.expr) -> str:
    """The variable of `variable.loc[row, column]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fills_column(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(statement))


def _lift(by_statement: dict[ast.stmt, list[Evaluation]]) -> None:
    """
    Moves a step to the calling statement or to the loop if a print cannot follow the statement itself: nothing follows
    a `return`, and if the statement is a step in only some calls, a print after it would be false.
    """
    changed = True
    while changed:
        changed = False
        for holder, milestone in _misplaced(by_statement):
            if holder.can_be_lifted(milestone):
                holder.milestones.discard(milestone)
                holder.lifted.add(milestone)
                if holder.parent is not None:
                    holder.parent.milestones.add(milestone)
                changed = True
    for holder, milestone in _misplaced(by_statement):
        holder.milestones.discard(milestone)


def _misplaced(by_statement: dict[ast.stmt, list[Evaluation]]) -> list[tuple[Evaluation, str]]:
    """Evaluations with a milestone that no print can follow."""
    found = []
    for statement, evaluations in by_statement.items():
        for milestone in set.union(*(evaluation.milestones for evaluation in evaluations)):
            holders = [evaluation for evaluation in evaluations if milestone in evaluation.milestones]
            if len(holders) < len(evaluations) or isinstance(statement, ast.Return | ast.Raise):
                found += [(holder, milestone) for holder in holders]
    return found


def _imports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Try):
        return any(_imports(inner) for inner in statement.body)
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "__future__"
    return isinstance(statement, ast.Import)
