"""The scores that programs report of themselves."""

import ast
import math
import re

from trl_mle.competitions import Competition
from trl_mle.execution.program import ProgramError, parse_program
from trl_mle.rewards import Evaluation


def validation_score(evaluation: Evaluation, competition: Competition) -> float | None:
    """
    The score that a program computes itself, on held-back data or not, as reported by the instrumenter's prints (see
    `trl_mle.instrumentation.reports`); `None` if it reports none. The program's own prints do not count.

    The last report in the competition's metric counts, identified by the name of the variable, the function called or
    the `scoring`. Values better than the metric can be, such as an accuracy in per cent or scikit-learn's `neg_log_loss`,
    and values with "train" in their name, are not comparable and do not count.
    """
    if not evaluation.reports or evaluation.source is None or not evaluation.valid:
        return None
    try:
        words = _words(parse_program(evaluation.source))
    except ProgramError:
        words = {}
    scoring = competition.scoring
    best = scoring.best if scoring.best is not None else math.inf if scoring.higher_is_better else 0.0
    for name, text in reversed(evaluation.reports):
        named = " ".join((name, *words.get(name, ())))
        if "train" in name or not re.search(scoring.names, named, re.IGNORECASE):
            continue
        try:
            value = float(text)
        except ValueError:  # an array, or the shape of a table
            continue
        if math.isfinite(value) and scoring.gain(value) <= scoring.gain(best):
            return value
    return None


def _words(tree: ast.Module) -> dict[str, list[str]]:
    """For each variable, the functions called and the strings passed in its assignments."""
    words: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found = words.setdefault(name, [])
                for part in ast.walk(value):
                    match part:
                        case ast.Call(func=ast.Name(id=word) | ast.Attribute(attr=word)):
                            found.append(word)
                        case ast.Constant(value=str(word)):
                            found.append(word)
    return words
