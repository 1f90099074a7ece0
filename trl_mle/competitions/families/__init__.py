"""Families of synthetic tasks: `task:train/<n>` and `task:test/<n>` for any whole number n. The two sides share no
[`Structure`]. A task is made from its id alone, and so are its labels: only a sandbox, which hides this package, keeps
them from programs."""

from trl_mle.competitions.families.solutions import plain_solution, reference_solution
from trl_mle.competitions.families.structure import PREFIX, Structure, structure_of
from trl_mle.competitions.families.task import ScoreRange, load_task, score_range


__all__ = ["PREFIX", "ScoreRange", "Structure", "load_task", "plain_solution", "reference_solution", "score_range"]
__all__ += ["structure_of"]
