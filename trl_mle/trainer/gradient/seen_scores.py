"""The different scores that a run has seen, in each competition."""

from bisect import bisect_left, insort
from typing import Any


class SeenScores:
    """The different qualities of valid programs so far. Copies of a program count once, so that ranks among them do not depend on how
    often the policy repeats itself."""

    def __init__(self) -> None:
        self._of: dict[str | None, list[float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, competition: str | None, quality: float) -> None:
        """Adds the quality of a valid program."""
        seen = self._of.setdefault(competition, [])
        place = bisect_left(seen, quality)
        if place == len(seen) or seen[place] != quality:
            insort(seen, quality)

    def rank(self, competition: str | None, quality: float) -> float:
        """The mid-rank of a quality that was added, in (0, 1): larger is better."""
        seen = self._of[competition]
        return (bisect_left(seen, quality) + 0.5) / len(seen)

    def state_dict(self) -> list[Any]:
        """State for a checkpoint, JSON-compatible."""
        return list(self._of.items())

    def load_state_dict(self, state: list[Any]) -> None:
        """Restores a [`state_dict`]."""
        self._of = {competition: list(seen) for competition, seen in state}
