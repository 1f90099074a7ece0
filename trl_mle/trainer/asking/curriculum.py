"""Which competition a group is asked about: the one where a group teaches the most per second of programs."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import comb
from typing import Any

from trl_mle.trainer.rows import Row, infrastructure_failed


FLOOR = 0.2  # share of the groups that is spread evenly, so that no competition is forgotten
MEMORY = 8.0  # groups of a competition after which an observation has lost 1 - 1/e of its weight
LONG_MEMORY = 64.0  # groups after which the highest valid rate has faded as much
PRIOR = 4.0  # completions that the optimistic start counts for
DURATION_PRIOR = 8.0  # completions that the mean Δt over all competitions counts for


@dataclass
class Lesson:
    """
    What was seen of one competition, in sums that forget.

    Args:
        programs (`float`), valid (`float`):
            Completions, and those among them with a valid submission.
        compared (`float`), distinct (`float`):
            Valid completions that another one was compared with, and the same times the share of pairs that differ in their score.
        timed (`float`), seconds (`float`):
            Completions without those that our own failures hit, and the sum of their Δt.
        peak (`float`):
            The highest rate of valid completions so far, which fades slowly: the policy can learn this again.
    """

    programs: float = 0.0
    valid: float = 0.0
    compared: float = 0.0
    distinct: float = 0.0
    timed: float = 0.0
    seconds: float = 0.0
    peak: float = 0.0

    @property
    def learnability(self) -> float:
        """
        What a group would teach: 4 v (1 − v) for its valid rate v, plus v times the share of pairs of valid programs that differ in
        their score, plus what v has lost since its peak. From 0 (all members are alike) to 2. Without any observation 3/2: half are
        valid, all differ.
        """
        rate = (self.valid + PRIOR / 2) / (self.programs + PRIOR)
        distinct = (self.distinct + PRIOR) / (self.compared + PRIOR)
        return 4 * rate * (1 - rate) + rate * distinct + max(0.0, self.peak - rate)

    def observe(self, members: Sequence[Row], group_size: int) -> None:
        """Takes completions of this competition."""
        kept = (1 - 1 / MEMORY) ** (len(members) / group_size)
        scores = [row["score"] for row in members if row["valid"]]
        compared = len(scores) if len(scores) > 1 else 0
        self.programs = kept * self.programs + len(members)
        self.valid = kept * self.valid + len(scores)
        self.compared = kept * self.compared + compared
        self.distinct = kept * self.distinct + (compared and compared * differing_pairs(scores))
        judged = sum(not infrastructure_failed(row) for row in members)
        self.timed = kept * self.timed + judged
        self.seconds = kept * self.seconds + sum(row.get("duration_s") or 0.0 for row in members)
        # What cannot be judged is not forgotten by the policy, so it gives no reason to come back
        faded = (1 - 1 / LONG_MEMORY) ** (judged / group_size) * kept ** (1 - judged / len(members))
        self.peak = max(faded * self.peak, self.valid / (self.programs + PRIOR))


class Curriculum:
    """
    Chooses competitions for the groups of a batch by their learnability per second of programs: 4 v (1 − v) + v d + max(0, v' − v)
    for the valid rate v, the share d of differing scores among the valid, and the highest valid rate v' so far, divided by the mean
    Δt. A competition that was always failed, or is always solved alike, teaches nothing, and a slow one has to teach more.

    A share of 0.2 of the groups is spread evenly. All processes observe the same, and so choose the same.

    Args:
        competitions (`Sequence[str]`):
            Ids of those that are trained on.
        group_size (`int`):
            Completions of a group.
        seed (`int`):
            Of the choice.
    """

    def __init__(self, competitions: Sequence[str], group_size: int, seed: int):
        self.lessons = {name: Lesson() for name in competitions}
        self.group_size = group_size
        self.seed = seed
        self.batch = 0  # batches chosen for so far, those before a resume included

    def probabilities(self) -> dict[str, float]:
        """How likely each competition is to be chosen for a group."""
        timed = sum(lesson.timed for lesson in self.lessons.values())
        mean_s = sum(lesson.seconds for lesson in self.lessons.values()) / timed if timed else 0.0
        worth = {}
        for name, lesson in self.lessons.items():
            seconds = (lesson.seconds + DURATION_PRIOR * mean_s) / (lesson.timed + DURATION_PRIOR)
            worth[name] = lesson.learnability / (seconds / mean_s if mean_s else 1.0)
        total = sum(worth.values())
        return {name: FLOOR / len(worth) + (1 - FLOOR) * value / total for name, value in worth.items()}

    def metrics(self) -> dict[str, dict[str, float]]:
        """For each competition its `curriculum/learnability`, and the `curriculum/probability` that a group asks for it."""
        return {
            name: {
                "curriculum/learnability": self.lessons[name].learnability,
                "curriculum/probability": probability,
            }
            for name, probability in self.probabilities().items()
        }

    def choose(self, groups: int) -> list[str]:
        """
        Chooses for the groups of a batch, by systematic sampling: each competition comes as often as its probability says, rounded
        up or down.

        Args:
            groups (`int`):
                Groups of all processes.

        Returns:
            `list[str]`: The competition's id for each.
        """
        rng = random.Random(f"{self.seed}-curriculum-{self.batch}")
        self.batch += 1
        names, edges = list(self.lessons), list(accumulate(self.probabilities().values()))
        start, chosen, i = rng.random(), [], 0
        for group in range(groups):
            while (start + group) / groups >= edges[i] and i < len(names) - 1:
                i += 1
            chosen.append(names[i])
        rng.shuffle(chosen)
        return chosen

    def observe(self, rows: Sequence[Row]) -> None:
        """
        Takes what the programs of a batch did.

        Args:
            rows (`Sequence[dict]`):
                The completions of all processes, see [`~trl_mle.trainer.rows.read_rows`].

        Raises:
            `ValueError`: No reward function has logged whether they are valid.
        """
        if any("valid" not in row for row in rows):
            raise ValueError("curriculum='learnability' needs to know which completions are valid: use an MLEReward")
        for name, lesson in self.lessons.items():
            # Also those that our own failures hit: nothing is learned from them, and there may be more
            members = [row for row in rows if row["competition"] == name]
            if members:
                lesson.observe(members, self.group_size)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it."""
        return {"batch": self.batch, "lessons": {name: asdict(lesson) for name, lesson in self.lessons.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what [`state_dict`] gave. Competitions that have left are forgotten, and new ones start afresh."""
        self.batch = state["batch"]
        for name in self.lessons.keys() & state["lessons"].keys():
            self.lessons[name] = Lesson(**state["lessons"][name])


def differing_pairs(scores: Sequence[float]) -> float:
    """Share of the pairs of scores, at least two, that differ."""
    alike = sum(comb(scores.count(score), 2) for score in set(scores))
    return 1 - alike / comb(len(scores), 2)
