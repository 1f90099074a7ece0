"""Chooses improve prompts: groups improve a solution of the pool, or vary its idea."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from trl_mle.competitions import TaskSet
from trl_mle.execution import Limits
from trl_mle.execution.program import OPTIONAL
from trl_mle.prompts import Ideas, improve_prompt, scratch_prompt
from trl_mle.solutions.pool import Solution, SolutionPool
from trl_mle.trainer.batch import Completion, Row
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


LONG_PROMPT = 8192  # tokens of an improve prompt if max_prompt_length sets no limit
LONG_TEXT = "x\n" * 9999  # a program, and an output, longer than any prompt
NO_IMPROVING = "set improve_probability to 0"

Prompt = list[dict[str, str]]


class SolutionPrompts:
    """Self-improvement as in https://huggingface.co/papers/2509.01684 (section 4.3): with probability
    `args.improve_probability`, a group of completions improves an earlier solution, or with `args.ideas` varies its
    idea. A group's prompt is a function of the seed, the generation and the group's number, and all processes observe
    the same programs, so that a group's members agree on every process."""

    def __init__(
        self, competitions: TaskSet, args: MLEGRPOConfig, limits: Limits, count_tokens: Callable[[Prompt], int]
    ):
        self.competitions = competitions
        self.args = args
        self.limits = limits
        self.count_tokens = count_tokens
        self.generation = 0  # number of batches so far, including those before a resume
        self.pool = SolutionPool(competitions, args.pool_size)
        self.ideas = Ideas(args.ideas, args.seed, OPTIONAL)  # those of valid programs are varied

    @property
    def shows_solutions(self) -> bool:
        return bool(self.competitions) and self.args.improve_probability > 0

    def check(self, has_environment: bool = False) -> None:
        """Raises `ValueError` if a prompt with an earlier program cannot be shown, or made short enough."""
        if has_environment and self.shows_solutions:
            raise ValueError(f"an environment has prompts of its own: {NO_IMPROVING}")
        for name in self.competitions.few() if self.shows_solutions else ():
            if not self._has_ideas(name):
                self.prompt_with(Solution(name, LONG_TEXT, LONG_TEXT, 0.0, step=0))

    def _has_ideas(self, competition: str) -> bool:
        return competition in self.competitions and bool(self.ideas.of(self.competitions[competition]))

    def choose(self, rows: list[Row], first: int) -> list[Row]:
        """Gives some groups a solution of the pool to improve, or a variation of its idea."""
        if self.shows_solutions and isinstance(rows[0]["prompt"], str):
            raise ValueError(f"the dataset's prompts are texts, not conversations: {NO_IMPROVING}")
        groups = [(first + i) // self.args.group_size for i in range(len(rows))]
        instead: dict[int, Row] = {}  # what a group is asked, made once for all of its rows
        prompts: dict[Solution, Prompt] = {}  # several groups may improve one solution
        for group, row in zip(groups, rows, strict=True):
            if group in instead:
                continue
            rng = random.Random(f"{self.args.seed}-{self.generation}-{group}")
            instead[group] = {}
            if rng.random() < self.args.improve_probability:
                varies = self._has_ideas(row.get("competition") or "")
                instead[group] = self._variation(row, rng) if varies else self._improvement(row, rng, prompts)
        self.generation += 1
        return [row | instead[group] for group, row in zip(groups, rows, strict=True)]

    def _improvement(self, row: Row, rng: random.Random, prompts: dict[Solution, Prompt]) -> Row:
        parent = self.pool.sample(row.get("competition") or "", rng)
        if parent is None:
            return {}
        if parent not in prompts:
            prompts[parent] = self.prompt_with(parent)
        return {"prompt": prompts[parent]} | _parent_columns(parent, row)

    def _variation(self, row: Row, rng: random.Random) -> Row:
        name = row.get("competition") or ""
        ranked = [(solution.idea, solution) for solution in self.pool.ranked(name)]
        variation = self.ideas.variation(self.competitions[name], ranked, rng)
        if variation is None:
            return {}
        parent, idea = variation
        prompt = scratch_prompt(self.competitions[name], self.limits, self.args.begins_answers, idea)
        return {"prompt": prompt} | _parent_columns(parent, row) | {"idea": idea.name}

    def prompt_with(self, parent: Solution) -> Prompt:
        limit = self.args.max_prompt_length
        with self.competitions.blaming(parent.competition):
            return improve_prompt(
                self.competitions[parent.competition],
                parent.source,
                parent.output,
                limits=self.limits,
                test_score=parent.score if self.args.show_test_score else None,
                max_tokens=limit if limit is not None else LONG_PROMPT,
                count_tokens=self.count_tokens,
                begin_program=self.args.begins_answers,
            )

    def observe(self, completions: Sequence[Completion], step: int) -> None:
        if self.shows_solutions:  # otherwise they would only fill memory and checkpoints
            self.pool.observe(filter(None, (self._solution(item, step) for item in completions)))

    def _solution(self, completion: Completion, step: int) -> Solution | None:
        evaluation, name = completion.evaluation, completion.competition
        score = evaluation.score.value if evaluation.valid and evaluation.score is not None else None
        if name not in self.competitions or name is None or evaluation.source is None or score is None:
            return None
        return Solution(name, evaluation.source, evaluation.output, score, step, completion.parent_id, completion.idea)

    def metrics(self) -> dict[str, float]:
        return {"pool/size": float(len(self.pool))} if self.shows_solutions else {}

    def state_dict(self) -> dict[str, Any]:
        holdout = {name: self.competitions.holdout(name) for name in self.competitions}
        return {"generation": self.generation, "solutions": self.pool.state_dict(), "holdout": holdout}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]. Raises `ValueError` if its scores are on other rows than the current ones."""
        for name in self.competitions:
            before, now = state["holdout"].get(name), self.competitions.holdout(name)
            if before not in (None, now):
                raise ValueError(f"the checkpoint's scores of {name} are those of holdout {before:g}, not {now:g}")
        self.generation = state["generation"]
        self.pool.load_state_dict(state["solutions"])


def _parent_columns(parent: Solution, row: Row) -> Row:
    columns = {"prompt_kind": "improve", "parent_id": parent.id, "parent_score": parent.score}
    return columns | {"idea": parent.idea} if "idea" in row else columns
