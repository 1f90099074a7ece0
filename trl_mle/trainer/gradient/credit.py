"""Which tokens of a completion its advantage is for, where its program failed. What this does, and why: docs/objective.md."""

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from trl_mle.execution.program import split_lines
from trl_mle.instrumentation.milestones import parse
from trl_mle.prompts import find_code


_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"\s*(#|$)")


@dataclass(frozen=True)
class Failure:
    """
    Where a completion's program failed.

    Args:
        first (`int`):
            The first token of the statement that failed.
        after (`int`):
            The first token behind it.
    """

    first: int
    after: int


def find_failure(
    token_ids: list[int],
    tokenizer: PreTrainedTokenizerBase,
    program: str | None,
    line: int | None,
    opening: str = "",
) -> Failure | None:
    """
    Finds the statement of a program at which it failed among the tokens of its completion. A token belongs to the line of its
    first byte: one that ends a line and begins the next belongs to the former.

    Args:
        token_ids (`list[int]` of length `T`):
            The completion.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Its tokenizer.
        program (`str`, *optional*):
            The program as it was taken out of the completion.
        line (`int`, *optional*):
            The line, from 1, at which it failed.
        opening (`str`, *optional*, defaults to `""`):
            What the prompt has begun the answer with, before the completion's tokens.

    Returns:
        [`Failure`], *optional*: `None` without a line, where it failed in what the prompt has begun, where the program is not in the
            completion, or if it does not parse.
    """
    if program is None or line is None:
        return None
    lines = failing_lines(program, line)
    text = _decoded(token_ids, tokenizer)
    found = find_code(opening + text)
    if lines is None or found is None or found.source != program:
        return None
    whole = split_lines(program)
    begin, last = sum(map(len, whole[: lines[0] - 1])), sum(map(len, whole[: lines[1] - 1]))
    start = max(0, found.position(begin) - len(opening))
    while start and text[start - 1] in " \t":  # of an indented block, whose indentation is no part of the program
        start -= 1
    # The end of a line is part of it, in the completion
    end = found.position(last + len(whole[lines[1] - 1].rstrip("\r\n")) - 1) + 1 - len(opening)
    if end <= 0:
        return None
    if line_end := _LINE_END.match(text, end):
        end = line_end.end()

    def characters(count: int) -> int:
        """Whole characters that so many tokens have written. A part of one is decoded to something else than the character."""
        written = _decoded(token_ids[:count], tokenizer)
        if text.startswith(written):
            return len(written)
        return next(place for place, pair in enumerate(zip(written, f"{text}\0", strict=False)) if pair[0] != pair[1])

    first, after = (bisect_left(range(len(token_ids)), place, key=characters) for place in (start, end))
    return Failure(first, after)


def _decoded(token_ids: list[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """As TRL decodes what it hands to reward functions."""
    text = tokenizer.decode(token_ids, skip_special_tokens=True)
    assert isinstance(text, str)  # of one sequence
    return text


def failing_lines(program: str, line: int) -> tuple[int, int] | None:
    """
    The lines of the statement that a line belongs to: the innermost one. Of a compound statement these are the lines of the part
    that the line is in, without its blocks: `for row in rows:`, or `except ValueError:`.

    Args:
        program (`str`):
            The program.
        line (`int`):
            From 1.

    Returns:
        `tuple[int, int]`, *optional*: The first and the last line. `None` where there is no statement, or if the program does not
            parse.
    """
    try:
        tree = parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    block, part = tree.body, None
    while here := [statement for statement in block if _first_line(statement) <= line <= _last_line(statement)]:
        blocks = [inner for statement in here for inner in _inner_blocks(statement)]
        above = [_last_line(inner[-1]) for inner in blocks if _last_line(inner[-1]) < line]
        below = [_first_line(inner[0]) for inner in blocks if _first_line(inner[0]) > line]
        first = max([*map(_first_line, here[:1]), *(number + 1 for number in above)])
        last = min([*map(_last_line, here[-1:]), *(number - 1 for number in below)])
        part = _without_comments(program, first, last, line) if above or below else (first, last)
        block = [statement for inner in blocks for statement in inner]
    return part


def _without_comments(program: str, first: int, last: int, line: int) -> tuple[int, int]:
    """Without comments and empty lines at both ends, as far as they do not hold the line."""
    lines = split_lines(program)
    code = [number for number in range(first, last + 1) if not _BLANK.match(lines[number - 1])]
    return min([line, *code]), max([line, *code])


def _inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for _, children in ast.iter_fields(statement):
        if isinstance(children, list) and children:
            if isinstance(children[0], ast.stmt):
                yield children
            elif isinstance(children[0], ast.excepthandler | ast.match_case):
                yield from (child.body for child in children)


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(decorator.lineno for decorator in getattr(statement, "decorator_list", []))])


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def credited(advantages: torch.Tensor, failures: Sequence[Failure | None], width: int) -> torch.Tensor:
    """
    Advantages of tokens: those of the statement at which a program failed earn nothing for what came before it, and those behind
    it, which never ran, neither gain nor lose.

    Args:
        advantages (`torch.Tensor` of shape `(B,)` or `(B, T)`):
            Of the completions, or of their tokens already.
        failures (`list[Failure | None]` of length `B`):
            Where their programs failed.
        width (`int`):
            Tokens of the longest completion, T.

    Returns:
        `torch.Tensor` of shape `(B, T)`: A itself before the statement, min(A, 0) in it and 0 behind it; A where nothing failed.
    """
    tokens = advantages if advantages.dim() > 1 else advantages.unsqueeze(1).expand(-1, width)
    tokens = tokens.clone()
    for row, failure in zip(tokens, failures, strict=True):
        if failure is not None:
            row[failure.first : failure.after].clamp_(max=0.0)
            row[failure.after :] = 0.0
    return tokens


def credit_metrics(completions: Sequence[tuple[int, Failure | None, bool]]) -> dict[str, float]:
    """
    What became of a batch.

    Args:
        completions (`list[tuple[int, Failure | None, bool]]`):
            Of all processes: number of tokens, where the program failed, and whether it did.

    Returns:
        `dict[str, float]`:
            - `credit/spared_rate`: share of the tokens behind the statement at which their program failed.
            - `credit/located_rate`: share of the failed programs of which that statement is known.
    """
    tokens = sum(count for count, _, _ in completions)
    spared = sum(max(0, count - failure.after) for count, failure, _ in completions if failure is not None)
    metrics = {"credit/spared_rate": spared / max(1, tokens)}
    located = [failure is not None for _, failure, failed in completions if failed]
    if located:
        metrics["credit/located_rate"] = sum(located) / len(located)
    return metrics
