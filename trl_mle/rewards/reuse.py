"""Runs equal programs only once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from trl_mle import __version__
from trl_mle.competitions import Competition, Score
from trl_mle.competitions.content import content_digest
from trl_mle.execution import Outcome
from trl_mle.rewards.evaluation import Evaluation
from trl_mle.rewards.pending import Execution, PendingEvaluation
from trl_mle.solutions import BestSolutions, ResultStore, result_key, syntax_tree_id


# Outcomes of programs that ended by themselves. Programs ended by us (for time, memory or files) or by others may end
# differently next time.
REUSABLE = (Outcome.OK, Outcome.ERROR)
# Results of another version, which may grade or record differently, have another key
VERSION = [__version__, *(item.name for kind in (Evaluation, Score) for item in fields(kind))]


@dataclass
class Asked:
    """A requested program."""

    source: str  # as the policy wrote it
    competition: Competition
    key: str = ""  # of everything that its result depends on
    known: Evaluation | None = None  # of an equal program
    is_executed: bool = True  # at once, because it is new or is run again as a check


class Reuse:
    """Tracks known results, and decides which programs run."""

    def __init__(self, store: ResultStore, best_solutions: BestSolutions | None):
        self.store = store
        self.best_solutions = best_solutions
        self.running: dict[str, Execution] = {}  # of this process, the first of each key

    def __reduce__(self) -> tuple:  # running programs are not shared with other processes
        return Reuse, (self.store, self.best_solutions)

    def look_up(self, asked: Sequence[Asked], settings: dict[str, Any]) -> None:
        """Finds out which programs are known and which must be executed."""
        begun = set(self.running)
        for item in asked:
            item.key = result_key(
                program=syntax_tree_id(item.source),
                competition=content_digest(item.competition),
                version=VERSION,
                **settings,
            )
            value, checked = self.store.find(item.key)
            if value is not None:
                item.known = Evaluation.from_dict(value)
                item.is_executed = checked or self._would_be_best(item.competition, item.known)
            else:
                item.is_executed = item.key not in begun
                begun.add(item.key)

    def note(self, asked: Asked, evaluation: Evaluation, is_final: bool) -> Evaluation:
        """Stores the evaluation of a program, or compares it with the known one."""
        self.running.pop(asked.key, None)
        evaluation = replace(evaluation, reused=False)
        if asked.known is not None and not evaluation.infrastructure_failed:
            same = (evaluation.outcome, evaluation.score) == (asked.known.outcome, asked.known.score)
            return replace(evaluation, matches=same)
        if evaluation.outcome in REUSABLE and is_final:
            self.store.add(asked.key, asdict(evaluation.reused_for(None)))
        return evaluation

    def forget(self, pending: PendingEvaluation) -> None:
        """Keeps equal programs from waiting for one that was stopped."""
        self.running = {key: item for key, item in self.running.items() if item is not pending}

    def _would_be_best(self, competition: Competition, known: Evaluation) -> bool:
        score = known.score.value if known.score is not None else None
        return self.best_solutions is not None and score is not None and self.best_solutions.wants(competition, score)
