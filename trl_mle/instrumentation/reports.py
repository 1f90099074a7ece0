"""Finds values worth reporting: shapes of loaded tables, and computed scores."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from trl_mle.competitions.metrics import METRICS
from trl_mle.instrumentation.milestones import dotted, imported_names, is_block


MAX_REPORTS = 8

TABLES = re.compile(r"(pandas|polars)\.read_(csv|json|ndjson|parquet|table|excel|feather|pickle)")
SCORES = re.compile(
    r"sklearn\.metrics\.(\w+_score|\w+_loss|\w+_error|auc|matthews_corrcoef)|sklearn\.model_selection\.cross_val_score"
    r"|(torch\.nn|nn)\.functional\.\w+_loss|scipy\.stats\.(pearsonr|spearmanr)|numpy\.corrcoef"
)
# A variable with a metric's name, in which one of these was called, holds a score that the program computes by hand
NAMES = re.compile("|".join(f"(?:{metric.names})" for metric in METRICS.values()), re.IGNORECASE)
NUMBERS = {"mean", "average", "median", "sum", "sqrt", "float", "round"}
BRANCHES = ast.If | ast.With | ast.Try
REPEATED = (
    ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda
)


def find_reports(tree: ast.Module) -> list[tuple[int, str]]:
    """
    Finds the statements that produce a value to report, such as `auc = roc_auc_score(...)`: only those that run at most
    once, because in a loop the reports would flood the output.
    """
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        names |= imported_names(node)
    found = []
    for statement in _once(tree):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)) if TABLES.fullmatch(
                _dotted(function, names)
            ):
                found.append((statement.lineno, f"{name}.shape"))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_score(value, names) or (
                NAMES.search(name) and _is_number(value)
            ):
                found.append((statement.lineno, name))
    return found[:MAX_REPORTS]


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    name, dot, attributes = dotted(node).partition(".")
    return names.get(name, name) + dot + attributes


def _is_score(value: ast.expr, names: dict[str, str]) -> bool:
    """Whether the value is computed from a score, as in `np.sqrt(mean_squared_error(y, p))`."""
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Attribute(attr="score")) | ast.Attribute(attr="best_score_" | "oob_score_"):
                return True
            case ast.Call(func=function) if SCORES.fullmatch(_dotted(function, names)):
                return True
    return False


def _is_number(value: ast.expr) -> bool:
    """Whether the value is computed by a function such as `mean` or `float`."""
    called = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(
        (isinstance(f, ast.Attribute) and f.attr in NUMBERS) or (isinstance(f, ast.Name) and f.id in NUMBERS)
        for f in called
    )


def _once(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run at most once: those of the module, and those of functions with a single call that itself
    runs at most once."""
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    plain = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    defined = Counter(node.name for node in plain)
    bodies = {node.name: node.body for node in plain}
    blocks = [tree.body]
    while blocks:
        for statement in blocks.pop(0):
            if isinstance(statement, BRANCHES):
                blocks += [block for _, block in ast.iter_fields(statement) if is_block(block)]
            elif not any(isinstance(node, REPEATED | ast.FunctionDef | ast.ClassDef) for node in ast.walk(statement)):
                yield statement
                calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
                called = [function.id for function in calls if isinstance(function, ast.Name)]
                blocks += [bodies[name] for name in called if uses[name] == defined[name] == 1]
