import ast
import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from trl_mle.competitions import Competition
from trl_mle.competitions.task_set import FEW
from trl_mle.execution.program import ProgramError, parse_program


TOTAL = 2048  # solutions that are kept of many competitions


@dataclass(frozen=True)
class Solution:
    """A program written by a policy."""

    competition: str  # its id
    source: str
    output: str  # of the program, bounded
    score: float | None  # on the hidden answers; `None` if it failed
    step: int  # the training step, from 1, at which it was found
    parent_id: str | None = None  # the solution that it improves; `None` if it was written from scratch
    idea: str | None = None  # that it, or the solution that it improves, was asked for

    @cached_property
    def id(self) -> str:
        """The same for all programs with the same syntax tree, see [`syntax_tree_id`]."""
        return syntax_tree_id(self.source)


class SolutionPool:
    """
    The valid solutions seen so far. Each improve prompt of https://huggingface.co/papers/2509.01684 (section 4.3)
    shows one of them. Processes that observe the same solutions in the same order have the same pool.

    Args:
        competitions (`Mapping[str, Competition]`):
            Those that are trained on, by id.
        size (`int`, *optional*, defaults to `64`):
            Number of solutions kept per competition; of more than 32 fewer, 2,048 over all, but four at least.
    """

    def __init__(self, competitions: Mapping[str, Competition], size: int = 64):
        self.competitions = competitions
        self.size = size if len(competitions) <= FEW else min(size, max(4, TOTAL // len(competitions)))
        self._solutions: dict[str, dict[str, Solution]] = {}

    def observe(self, solutions: Iterable[Solution]) -> None:
        for solution in solutions:
            kept = self._solutions.setdefault(solution.competition, {})
            kept.setdefault(solution.id, solution)
            if len(kept) > self.size:
                del kept[self.ranked(solution.competition)[-1].id]

    def ranked(self, competition: str) -> list[Solution]:
        """The valid solutions of a competition, best first; ties in the order in which they were found."""
        quality = self.competitions[competition].scoring.gain
        solutions = self._solutions.get(competition, {}).values()
        return sorted(solutions, key=lambda solution: -quality(solution.score or 0.0))

    def sample(self, competition: str, rng: random.Random) -> Solution | None:
        """Samples a valid solution to improve, if there is one: the i-th best of n with probability
        2 (n - i) / (n (n + 1)), i from 0."""
        if competition not in self._solutions:
            return None
        ranked = self.ranked(competition)
        return rng.choices(ranked, weights=range(len(ranked), 0, -1))[0]

    def __len__(self) -> int:
        return sum(map(len, self._solutions.values()))

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint, JSON-compatible."""
        return {name: [asdict(solution) for solution in kept.values()] for name, kept in self._solutions.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]; competitions that are no longer trained on are left out."""
        self._solutions = {}
        for name, entries in state.items():
            if name in self.competitions:
                self.observe(Solution(**entry) for entry in entries)


@lru_cache(maxsize=4096)  # as many as a batch may hold, because it is called several times
def syntax_tree_id(source: str) -> str:
    """An id that programs with the same syntax tree share, independent of comments and layout."""
    try:
        text = ast.dump(parse_program(source))
    except ProgramError:
        text = source
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]
