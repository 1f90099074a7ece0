"""Chooses where to place prints: after statements that complete a step whenever they run."""

import ast
import functools
from collections import Counter

from trl_mle.instrumentation.milestones import IMPORTS, PREDICTIONS, SUBMISSION, TEST_DATA, TRAIN_DATA, dotted
from trl_mle.instrumentation.steps.flow import Flow
from trl_mle.instrumentation.steps.names import ADDS, ROW_WRITES
from trl_mle.instrumentation.steps.values import Scope
from trl_mle.instrumentation.verify import bound_names


def find_steps(tree: ast.Module) -> list[tuple[int, str]]:
    """The lines of the statements after which milestones are reached; none if calls are nested too deeply."""
    superseded: set[tuple[ast.AST, str]] = set()
    try:
        for _ in range(2):  # the first time shows which steps later ones complete
            flow = Flow(_constants(tree), superseded)
            flow.run(tree.body, Scope())
    except RecursionError:
        return []
    steps = set()
    for statement, evaluations in flow.evaluations.items():
        for milestone in evaluations[0]:
            sources = {done[milestone] for done in evaluations if milestone in done}
            is_marked_within = statement not in sources and all(_is_done(flow, one, milestone) for one in sources)
            if not is_marked_within and _is_done(flow, statement, milestone):
                steps.add((statement.lineno, milestone))
    if PREDICTIONS not in flow.reached:
        steps |= {(statement.lineno, PREDICTIONS) for statement in _predictions_by_rule(flow)}
    imports = [statement for statement in flow.block if _imports(statement)]  # in the order of execution
    if imports:
        block = flow.block[imports[0]]
        steps.add((max(statement.lineno for statement in imports if flow.block[statement] is block), IMPORTS))
    return sorted(steps)


def _is_done(flow: Flow, statement: ast.stmt, milestone: str) -> bool:
    """Whether the milestone is reached whenever the statement completes, so that a print can follow it."""
    is_jump = isinstance(statement, ast.Return | ast.Raise)
    return not is_jump and all(milestone in done for done in flow.evaluations[statement])


def _constants(tree: ast.Module) -> dict[str, bool]:
    """Names that are bound exactly once, to a constant, with its truth value."""
    bound = Counter(name for node in ast.walk(tree) for name in bound_names(node))
    constants = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value)) if bound[name] == 1:
                constants[name] = bool(value)
    return constants


def _imports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Try):
        return any(map(_imports, statement.body))
    return isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__"


def _predictions_by_rule(flow: Flow) -> list[ast.stmt]:
    """
    Predictions without a known model: by rules, constants, or the program's own models. They are complete where the
    submitted values were last changed, if these are computed from the test data or assigned to a column.
    """
    loads = {one for one, done in flow.evaluations.items() if {TRAIN_DATA, TEST_DATA} & set().union(*done)}
    changed = functools.cache(_changed)

    def predicts(statement: ast.stmt) -> bool:
        is_load = statement in loads and not isinstance(statement, ast.For)  # a loop may read row by row
        uses = (node.ctx for node in ast.walk(statement) if isinstance(node, ast.Subscript))
        return not is_load and (statement in flow.on_test or any(isinstance(use, ast.Store) for use in uses))

    predictions = []
    for place in [one for one, done in flow.evaluations.items() if SUBMISSION in set().union(*done)]:
        while place in flow.block:
            used = {node.id for node in ast.walk(place) if isinstance(node, ast.Name)}
            before = flow.block[place][: flow.block[place].index(place)]
            last = next((statement for statement in reversed(before) if used & changed(statement)), None)
            if last is not None and predicts(last):
                predictions.append(last)
                break
            if loads & {node for node in ast.walk(place) if node is not place}:  # row by row, from file to file
                predictions.append(place)
                break
            if last is not None:
                break
            place = flow.outer[place]
    return predictions


def _changed(statement: ast.stmt) -> set[str]:
    """Names of variables that a statement binds or changes in place, except for selections of rows or columns."""
    is_selection = isinstance(statement, ast.Assign) and _selects(statement.value)
    changed: list[ast.expr] = []
    for node in ast.walk(statement):
        match node:
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                changed.append(node)
            case ast.Name(ctx=ast.Store()) if not is_selection:
                changed.append(node)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in ADDS | ROW_WRITES:
                changed.append(value)
    return set(map(_variable, changed))


def _selects(value: ast.expr) -> bool:
    """Whether it is a selection of rows or columns, `table[["id"]]`, or a copy of one."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="copy")):
            return _selects(inner)
    return isinstance(value, ast.Subscript)


def _variable(node: ast.expr) -> str:
    """The variable of `variable.loc[row, column]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return dotted(node)
