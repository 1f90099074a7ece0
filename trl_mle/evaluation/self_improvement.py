"""Improvement at test time: improves each valid program once, and keeps the better of the two."""

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.sample_log import Sample
from trl_mle.evaluation.sampling import ChosenBy, count_executed, score_of, summarize
from trl_mle.execution.program import ProgramError, parse_program
from trl_mle.rewards import Evaluation


@dataclass(frozen=True)
class Improvement:
    """
    A program written from scratch, and its improved version.

    Args:
        scratch ([`~trl_mle.rewards.Evaluation`]):
            The program from scratch.
        improved ([`~trl_mle.rewards.Evaluation`], *optional*):
            The improved program; `None` if the first is not valid, so that there is nothing to improve.
        validation_scores (`tuple[float | None, float | None]`, *optional*, defaults to `(None, None)`):
            Their self-reported scores, see [`validation_score`].
        higher_is_better (`bool`, *optional*, defaults to `True`):
            Whether a larger score is better.
    """

    scratch: Evaluation
    improved: Evaluation | None = None
    validation_scores: tuple[float | None, float | None] = (None, None)
    higher_is_better: bool = True

    @property
    def chosen_by(self) -> ChosenBy | None:
        """
        The kind of score that decides: `"test"` if a program reports no validation score, else `"validation"`; `None` if at
        most one program is valid, so that there is no choice.
        """
        if self.improved is None or not self.improved.valid:
            return None
        return "test" if None in self.validation_scores else "validation"

    def kept(self, by: ChosenBy) -> Evaluation:
        """
        The better of the two programs; the first on a tie. By `"validation"`: by the self-reported scores, or by the graded
        score (on the validation rows, if rows are held out) if a program reports none. By `"test"`: by the graded score on
        all rows, as in https://huggingface.co/papers/2509.01684, which uses the hidden answers.
        """
        if self.improved is None or self.chosen_by is None:
            return self.scratch
        first, second = score_of(self.scratch, by), score_of(self.improved, by)
        if by == self.chosen_by == "validation":
            first, second = self.validation_scores
        assert first is not None, "both are valid"
        assert second is not None, "both are valid"
        return self.improved if gain(second - first, self.higher_is_better) > 0 else self.scratch


def improve_each(harness: Harness, evaluations: Sequence[Evaluation]) -> list[Improvement]:
    """
    Samples one improvement of each valid program, and executes and grades it.

    Args:
        harness ([`Harness`]):
            The policy and the competition.
        evaluations (`list[Evaluation]`):
            All programs; the valid ones are improved.

    Returns:
        `list[Improvement]`: One item for each of `evaluations`.

    Raises:
        `ValueError`: The prompt is longer than the harness allows even without the program.
        [`~trl_mle.evaluation.harness.NoAnswerError`]: An endpoint has not answered all of a batch.
    """
    competition = harness.competition
    improved: dict[int, Evaluation] = {}
    for start in range(0, len(evaluations), harness.batch_size):
        batch = range(start, min(start + harness.batch_size, len(evaluations)))
        valid = [i for i in batch if evaluations[i].valid]
        samples = [Sample(competition.id, "improve", i) for i in valid]
        if any(sample not in harness.log.written for sample in samples):
            prompts = [harness.improve_prompt(evaluations[i]) for i in valid]
            harness.write(samples, prompts, "improve", valid, seeds_used=len(evaluations))
        improved |= dict(zip(valid, harness.execute(samples), strict=True))
    improvements = []
    for i, evaluation in enumerate(evaluations):
        better = improved.get(i)
        second = None if better is None else validation_score(better, competition)
        scores = validation_score(evaluation, competition), second
        improvements.append(Improvement(evaluation, better, scores, competition.higher_is_better))
    return improvements


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


def summarize_improvements(improvements: Sequence[Improvement]) -> dict[str, Any]:
    """
    Counts how often a program was improved, and summarizes the kept programs, chosen by either score.

    Returns:
        `dict`: JSON-compatible figures. `num_executed` includes the programs from scratch. In `kept`, `num_choices`
        counts how often the score named by `chosen_by` decided. If rows are held out, scores with `"validation"` are on
        the held-out rows, and scores with `"test"` on all rows.
    """
    improved = [item.improved for item in improvements if item.improved is not None]
    chosen_by = [item.chosen_by for item in improvements if item.chosen_by is not None]
    choices: dict[ChosenBy, int] = {"validation": chosen_by.count("validation"), "test": len(chosen_by)}
    kept = []
    for score, num_choices in choices.items():
        summary = summarize([item.kept(score) for item in improvements], improvements[0].higher_is_better, score)
        kept.append({"chosen_by": score, "num_choices": num_choices} | summary.to_dict())
    return {
        "num_executed": count_executed([*(item.scratch for item in improvements), *improved]),
        "num_improve_prompts": len(improved),
        "num_valid": sum(evaluation.valid for evaluation in improved),
        "num_better_by_test": sum(item.kept("test") is item.improved for item in improvements),
        "kept": kept,
    }
