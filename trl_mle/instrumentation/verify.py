"""Proving that an instrumented program is the original plus milestone prints, and nothing else."""

import ast
from collections.abc import Iterator

from trl_mle.instrumentation.milestones import FILENAME, MILESTONES, marker_print, parse, split_lines


class VerificationError(ValueError):
    """The instrumented program is not the original plus milestone prints."""


def verify(original: str, source: str, nonce: str) -> None:
    """
    Check that `source` is `original` plus milestone prints with this nonce, each a line and a statement of its own,
    and that these prints call Python's own `print`.

    Args:
        original (`str`):
            The program as the policy wrote it.
        source (`str`):
            The program with prints.
        nonce (`str`):
            The random text in the prints.

    Raises:
        [`VerificationError`]:
            With what differs.
    """
    if nonce in original:
        raise VerificationError("the original program contains the nonce")
    try:
        expected, tree = parse(original), parse(source)
        # The parser alone lets a print pass in front of `from __future__ import`.
        compile(source.removeprefix("\ufeff"), FILENAME, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise VerificationError(f"the program does not compile: {error}") from error
    for node in ast.walk(expected):
        if takes_over_print(node):
            raise VerificationError(f"line {getattr(node, 'lineno', '?')} of the original takes over `print`")

    prints = {marker_print(nonce, milestone) for milestone in MILESTONES}
    kept = [line for line in split_lines(source) if line.strip() not in prints]
    if [line.rstrip("\r\n") for line in kept] != [line.rstrip("\r\n") for line in split_lines(original)]:
        raise VerificationError("the lines besides the prints are not those of the original")
    _remove(prints, tree)
    _compare(expected, tree)


def takes_over_print(node: ast.AST) -> bool:
    """Whether the node binds or deletes the name `print`, or exchanges what `print` does or writes to."""
    match node:
        case ast.Attribute(attr="print" | "stdout", ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(slice=ast.Constant("print"), ctx=ast.Store() | ast.Del()):
            return True  # globals()["print"] = ...
        case ast.Call(func=ast.Name("setattr" | "delattr"), args=[_, ast.Constant("print" | "stdout"), *_]):
            return True
        case ast.Name("__builtins__") | ast.Constant("builtins.print" | "sys.stdout" | "__builtins__"):
            return True  # mock.patch("builtins.print")
        case ast.Name("redirect_stdout") | ast.Attribute(attr="redirect_stdout"):
            return True
    return "print" in _bound(node)


def _bound(node: ast.AST) -> list[str | None]:
    """The names that the node itself binds or deletes."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.ExceptHandler(name=name):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.split(".")[0]]
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return list(names)
    return []


def _remove(prints: set[str], tree: ast.Module) -> None:
    """Remove the statements that are exactly one of the prints."""
    dumps = {ast.dump(ast.parse(text).body[0]) for text in prints}
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                block[:] = [child for child in block if not (_calls_print(child) and ast.dump(child) in dumps)]


def _calls_print(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name("print"))):
            return True
    return False


def _compare(expected: ast.AST, found: ast.AST) -> None:
    """Compare two trees, positions aside. Iterative: the trees of generated programs can be deep."""
    stack: list[tuple[object, object, object]] = [(expected, found, "?")]
    while stack:
        left, right, line = stack.pop()
        if isinstance(left, ast.AST) and isinstance(right, ast.AST) and type(left) is type(right):
            line = getattr(left, "lineno", line)
            stack += [(*pair, line) for pair in zip(_fields(left), _fields(right), strict=True)]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            stack += [(*pair, line) for pair in zip(left, right, strict=True)]
        elif type(left) is not type(right) or repr(left) != repr(right):  # 1, 1.0 and True are equal, but differ
            raise VerificationError(f"the statement at line {line} of the original differs")


def _fields(node: ast.AST) -> Iterator[object]:
    return (getattr(node, field, None) for field in node._fields)
