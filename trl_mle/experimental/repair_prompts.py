"""Prompts to repair a failed program. The paper found them unhelpful; with pretrained models they are being measured."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trl_mle.solutions.pool import Solution
from trl_mle.trainer import Part
from trl_mle.trainer.asking.solution_prompts import LONG_TEXT, Prompt, SolutionPrompts
from trl_mle.trainer.judged import Judged, Row, competition_of


class RepairPrompts(Part):
    """
    Shows some of the groups that would start from scratch a failed program with its output, and asks to repair it.

    A group's prompt is a function of the seed, the generation and the group's number over all processes, so that its members
    agree on every process.

    Args:
        prompts ([`~trl_mle.trainer.asking.solution_prompts.SolutionPrompts`]):
            The trainer's, which writes the prompts.
        probability (`float`):
            Probability that such a group repairs a program.
        size (`int`, *optional*, defaults to `64`):
            Number of failed programs kept per competition, without duplicates. The oldest leave first.

    Example:

    ```python
    >>> trainer.parts += (RepairPrompts(trainer.solution_prompts, probability=0.2),)
    ```
    """

    name = "failed_programs"

    def __init__(self, prompts: SolutionPrompts, probability: float, size: int = 64):
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}")
        self.prompts = prompts
        self.probability = probability
        self.size = size
        self.failed: dict[str, dict[str, Solution]] = {name: {} for name in prompts.competitions}
        for name in self.failed:  # raises if such a prompt cannot be made short enough
            prompts.prompt_with(Solution(name, LONG_TEXT, LONG_TEXT, score=None, step=0))

    def choose(self, rows: list[Row], first: int) -> list[Row]:
        written: dict[str, Prompt] = {}
        chosen = []
        for i, row in enumerate(rows):
            args, competitions = self.prompts.args, self.prompts.competitions
            rng = random.Random(f"{args.seed}-repair-{self.prompts.generation}-{(first + i) // args.group_size}")
            known = list(self.failed.get(competition_of(row, competitions) or "", {}).values())
            if row["prompt_kind"] == "scratch" and rng.random() < self.probability and known:
                program = rng.choice(known)
                if program.id not in written:
                    written[program.id] = self.prompts.prompt_with(program)
                row = row | {"prompt": written[program.id], "prompt_kind": "repair", "parent_id": program.id}
            chosen.append(row)
        return chosen

    def observe(self, completions: Sequence[Judged], step: int) -> None:
        for item in completions:
            program = self.prompts.solution_of(item, step)
            if program is None or program.score is not None:
                continue
            known = self.failed[program.competition]
            known.setdefault(program.id, program)
            if len(known) > self.size:
                del known[next(iter(known))]

    def state_dict(self) -> dict[str, Any]:
        return {name: [asdict(program) for program in known.values()] for name, known in self.failed.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self.failed:
            programs = [Solution(**entry) for entry in state.get(name, [])]
            self.failed[name] = {program.id: program for program in programs}
