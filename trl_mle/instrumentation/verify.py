"""Proves that an instrumented program is the original plus milestone prints, and nothing else."""

import ast

from trl_mle.execution.program import ProgramError, parse_program, split_lines
from trl_mle.instrumentation.milestones import MILESTONES, dotted, marker_print


class VerificationError(ProgramError):
    """The instrumented program is not the original plus our prints."""


_STREAMS = {"os", "stdout", "sys.stdout", "__stdout__", "sys.__stdout__"}  # in `os.close(1)`, it is the module
_IN_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


def verify(original: str, source: str, nonce: str) -> None:
    """
    Checks that `source` is `original` plus milestone prints with this nonce, and that these prints call
    Python's own `print`. Each must be a statement on separate lines that follows another statement in its block: removing
    such lines does not change how the rest is parsed, so it is enough that the other lines equal the original.

    Args:
        original (`str`):
            The program as the policy wrote it.
        source (`str`):
            The program with prints.
        nonce (`str`):
            The random text in the prints.

    Raises:
        [`VerificationError`]: The programs differ; the message says where.
    """
    if nonce in original:
        raise VerificationError("the original program contains the nonce")
    ours: dict[int, str] = {}  # by line number
    kept = []
    for number, line in enumerate(split_lines(source), 1):
        if nonce in line:
            ours[number] = line.strip()
        else:
            kept.append(line.rstrip("\r\n"))
    if kept != [line.rstrip("\r\n") for line in split_lines(original)]:
        raise VerificationError("the lines besides the prints are not those of the original")
    try:
        tree = parse_program(source)
    except ProgramError as error:
        raise VerificationError(f"the program does not compile: {error}") from error
    future = [node.lineno for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    if ours and future and min(ours) < max(future):
        raise VerificationError("a print stands before `from __future__ import`")
    _check_statements(tree, ours, nonce)
    for node in ast.walk(tree):
        if takes_over_print(node):
            raise VerificationError(f"line {getattr(node, 'lineno', '?')} takes over `print`")


def _check_statements(tree: ast.Module, ours: dict[int, str], nonce: str) -> None:
    """Checks that these lines are the expected prints, one statement each."""
    left = dict(ours)
    markers = {marker_print(nonce, milestone) for milestone in MILESTONES}
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        for _, block in ast.iter_fields(node):
            if not (isinstance(block, list) and block and isinstance(block[0], _IN_BLOCKS)):
                continue
            for index, child in enumerate(block):
                first, last = getattr(child, "lineno", 0), getattr(child, "end_lineno", 0)
                if first not in left:
                    if not first or last > first:  # otherwise it has no room for our line
                        nodes.append(child)
                    continue
                text = [left.pop(number, "") for number in range(first, last + 1)]
                if not (index and text[0] in markers and len(text) == 1):
                    raise VerificationError(f"line {first} is not a print of its own")
    if left:
        raise VerificationError(f"line {min(left)} is not a statement of its own")


def takes_over_print(node: ast.AST) -> bool:
    """Whether the node binds or deletes the name `print`, changes what `print` does, or replaces or closes its output."""
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
        case ast.Attribute(attr="close" | "detach" | "fileno", value=stream) | ast.withitem(context_expr=stream):
            # After `os.close(1)`, the next opened file would receive the prints.
            return dotted(stream).removesuffix(".buffer") in _STREAMS
        case ast.Attribute(attr="closerange" | "dup2") | ast.alias(name="close" | "closerange" | "dup2"):
            return True
        case ast.Call(func=ast.Name("open") | ast.Attribute(attr="open" | "fdopen"), args=[ast.Constant(1), *_]):
            return True
    return "print" in bound_names(node)


def bound_names(node: ast.AST) -> list[str | None]:
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
