"""Proves that an instrumented program is the original plus milestone prints, and nothing else."""

import ast
from collections.abc import Callable
from copy import deepcopy

from trl_mle.execution.program import ProgramError, parse_program, split_lines
from trl_mle.instrumentation.milestones import MILESTONES, blocks, dotted, is_future_import, marker_print


class VerificationError(ProgramError):
    """The instrumented program is not the original plus our prints."""


_STREAMS = {"os", "stdout", "sys.stdout", "__stdout__", "sys.__stdout__"}  # in `os.close(1)`, it is the module


def verify(original: str, source: str, nonce: str) -> None:
    """
    Checks that `source` is `original` plus milestone prints with this nonce, each a line of its own after another
    statement of its block, and that they call Python's own `print`. Raises [`VerificationError`] otherwise.
    """
    if nonce in original:
        raise VerificationError("the original program contains the nonce")
    lines = split_lines(source)
    kept = [line.rstrip("\r\n") for line in lines if nonce not in line]
    if kept != [line.rstrip("\r\n") for line in split_lines(original)]:
        raise VerificationError("the lines besides the prints are not those of the original")
    markers = {marker_print(nonce, milestone) for milestone in MILESTONES}
    try:
        tree = parse_program(source)
        rest, prints = without(tree, lambda statement: lines[statement.lineno - 1].strip() in markers)
        is_same = ast.dump(rest) == ast.dump(parse_program(original))
    except ProgramError as error:
        raise VerificationError(f"the program does not compile: {error}") from error
    if not is_same or any(before is None for before, _ in prints) or len(prints) != len(lines) - len(kept):
        raise VerificationError("a print is not a statement of its own after another one")
    future = [statement.lineno for statement in tree.body if is_future_import(statement)]
    if future and any(statement.lineno < future[-1] for _, statement in prints):
        raise VerificationError("a print stands before `from __future__ import`")
    for node in ast.walk(tree):
        if takes_over_print(node):
            raise VerificationError(f"line {getattr(node, 'lineno', '?')} takes over `print`")


def without(
    tree: ast.Module, is_print: Callable[[ast.stmt], object]
) -> tuple[ast.Module, list[tuple[ast.stmt | None, ast.stmt]]]:
    """A copy of a tree without its prints, and these, each with the statement before it in its block, if any."""
    tree, prints = deepcopy(tree), []
    for node in ast.walk(tree):
        for block in blocks(node):
            kept: list[ast.stmt] = []
            for statement in block:
                if is_print(statement):
                    prints.append((kept[-1] if kept else None, statement))
                else:
                    kept.append(statement)
            block[:] = kept
    return tree, prints


def takes_over_print(node: ast.AST) -> bool:
    """Whether the node binds or deletes the name `print`, or changes, replaces or closes what it prints to."""
    match node:
        case (
            ast.Attribute(attr="print" | "stdout", ctx=ast.Store() | ast.Del())
            | ast.Subscript(slice=ast.Constant("print"), ctx=ast.Store() | ast.Del())  # globals()["print"] = ...
            | ast.Call(func=ast.Name("setattr" | "delattr"), args=[_, ast.Constant("print" | "stdout"), *_])
            | ast.Constant("builtins.print" | "sys.stdout" | "__builtins__")  # mock.patch("builtins.print")
            | ast.Name("__builtins__" | "redirect_stdout")
            | ast.Attribute(attr="redirect_stdout" | "closerange" | "dup2")
            | ast.alias(name="close" | "closerange" | "dup2")
            | ast.Call(func=ast.Name("open") | ast.Attribute(attr="open" | "fdopen"), args=[ast.Constant(1), *_])
        ):
            return True
        case ast.Attribute(attr="close" | "detach" | "fileno", value=stream) | ast.withitem(context_expr=stream):
            # After `os.close(1)`, the next opened file would receive the prints.
            return dotted(stream).removesuffix(".buffer") in _STREAMS
    return "print" in bound_names(node)


def bound_names(node: ast.AST) -> list[str | None]:
    """The names that the node itself binds or deletes."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ExceptHandler(name=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.split(".")[0]]
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return list(names)
    return []
