"""What `evaluate` and `solve` share: sample a policy, execute and grade its programs, and log everything."""

import hashlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from trl_mle.competitions import Competition
from trl_mle.competitions.content import content_digest
from trl_mle.evaluation.policies import Policy, Prompt, load_policy
from trl_mle.execution import Executor, Limits
from trl_mle.execution.options import OF_A_PROGRAM, ExecutorArguments, option
from trl_mle.prompts import Idea, Ideas, improve_prompt, keep_packages, scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog, Sample, cut_middle
from trl_mle.rewards.progress import how_to_ask
from trl_mle.showing import PlainConsole, terminal_line


SEEDS = 2**32  # NumPy's range of seeds


class NoAnswerError(ValueError):
    """A policy has not answered all prompts. Answers received so far are kept."""


def sample_seeds(seed: int, competition: Competition, numbers: Iterable[int]) -> list[int]:
    """Seeds of a competition's samples, by their numbers: its own, because from the same seeds a model answers similar
    prompts alike."""
    first = int.from_bytes(hashlib.sha256(f"{seed} {competition.id}".encode()).digest()[:4], "big")
    return [(first + number) % SEEDS for number in numbers]


class Request(NamedTuple):
    """A prompt, its kind, and for improvements and variations the index of an earlier program."""

    prompt: Prompt
    step: str = "scratch"  # or vary, debug, improve
    parent: int | None = None
    idea: str | None = None


@dataclass(frozen=True)
class Harness:
    """One policy in one competition. Samples and executions that are already in the log are not repeated."""

    policy: Policy
    competition: Competition
    reward: MLEReward
    log: ProgramLog
    max_new_tokens: int
    max_prompt_tokens: int  # of a prompt that shows a program
    limits: Limits  # of a program, as stated in the prompt
    seed: int
    batch_size: int = 64  # programs that are sampled, and then executed, at a time
    begin_program: bool = True  # whether prompts begin the answer
    ideas: Ideas = field(default_factory=Ideas)  # what programs from scratch are asked to fit, in turn

    def scratch(self, number: int) -> Request:
        """Asks for the `number`-th program from scratch."""
        return self._from_scratch(self.ideas.turn(self.competition, number))

    def variation(self, best: Sequence[int], rng: random.Random) -> Request | None:
        """Asks for a variation of the idea of one of these programs, best first."""
        ranked = [(self.log.samples[self.competition.id, index].idea, index) for index in best]
        if (variation := self.ideas.variation(self.competition, ranked, rng)) is None:
            return None
        parent, idea = variation
        return self._from_scratch(idea)._replace(step="vary", parent=parent)

    def _from_scratch(self, idea: Idea | None) -> Request:
        prompt = scratch_prompt(self.competition, self.limits, begin_program=self.begin_program, idea=idea)
        return Request(prompt, idea=None if idea is None else idea.name)

    def improvement(self, parent: int, evaluation: Evaluation, step: str) -> Request:
        """Asks for a better version of a program, or with the step `"debug"` for a repair of a failed one, and shows
        its output, never its score. Raises `ValueError` if the prompt is longer than `max_prompt_tokens` even without
        the program."""
        prompt = improve_prompt(
            self.competition, evaluation.source or "", cut_middle(evaluation.output), limits=self.limits,
            failed=step == "debug", max_tokens=self.max_prompt_tokens, count_tokens=self.policy.count_tokens,
            begin_program=self.begin_program,
        )  # fmt: skip
        return Request(prompt, step, parent)

    def write(self, requests: Mapping[int, Request], until_s: float = math.inf) -> None:
        """Samples the completions that are not in the log yet. Until `until_s`, a missing answer raises
        [`NoAnswerError`]."""
        name = self.competition.id
        missing = [index for index in requests if (name, index) not in self.log.samples]
        if not missing:
            return
        note = terminal_line(f"{self.log.path.stem}, {name}: sampling up to program {max(missing) + 1}")
        with PlainConsole(stderr=True).status(Text(note)):
            completions = self.policy.sample(
                [requests[index].prompt for index in missing],
                self.max_new_tokens,
                sample_seeds(self.seed, self.competition, missing),
                max(until_s - self.log.now(), 0.0),
            )
        answers = {
            index: Sample(completion, requests[index].step, requests[index].parent, requests[index].idea)
            for index, completion in zip(missing, completions, strict=True)
            if completion.text is not None
        }
        self.log.add_completions(name, answers)
        if len(answers) < len(missing) and self.log.now() < until_s:
            error = next(completion.error for completion in reversed(completions) if completion.text is None)
            raise NoAnswerError(
                f"{self.policy.identity} has not answered {len(missing) - len(answers)} of {len(missing)} prompts; "
                f"run the same command again to resume ({self.log.path}); the last error was: {error or 'unknown'}"
            )

    def execute(self, indices: Sequence[int], until_s: float = math.inf) -> list[Evaluation]:
        """Executes and grades completions that are not in the log yet; returns the evaluations of all. Programs that
        still run at `until_s`, in seconds of the log, end without one."""
        samples = {index: self.log.samples[self.competition.id, index] for index in indices}
        missing = [index for index, sample in samples.items() if sample.evaluation is None]
        evaluations = self.reward.evaluate_many(
            [(samples[index].completion.text or "", self.competition) for index in missing],
            on_done=lambda i, evaluation: self.log.add_evaluation(self.competition.id, missing[i], evaluation),
            time_is_up=lambda: self.log.now() >= until_s,
        )
        new = dict(zip(missing, evaluations, strict=True))
        return [sample.evaluation or new[index] for index, sample in samples.items()]


def sample_programs(harness: Harness, num_samples: int) -> list[Evaluation]:
    """Samples programs from scratch, and grades them. Raises [`NoAnswerError`] if an endpoint leaves a prompt open."""
    evaluations: list[Evaluation] = []
    for start in range(0, num_samples, harness.batch_size):
        batch = range(start, min(start + harness.batch_size, num_samples))
        harness.write({i: harness.scratch(i) for i in batch})
        evaluations += harness.execute(batch)
    return evaluations


def check_counts(**options: int | None) -> None:
    """Raises `ValueError` if an option is set to less than 1."""
    for name, value in options.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")


@dataclass(kw_only=True)
class SamplingArguments(ExecutorArguments):
    """The options of commands that sample programs from policies; see their help."""

    data_dir: str | None = option(None, "Folder with MLE-bench's prepared competitions.")
    seed: int = option(0, "Seed of the sampling.")
    batch_size: int = option(16, "Programs sampled at a time.")
    max_completion_length: int | None = option(
        None, "Length limit of a completion, in tokens; defaults to the largest of the policies' trainings, or 1024."
    )
    begin_program: bool | None = option(
        None,
        "Whether the first lines of a program begin each answer; defaults to the value of a policy's training, or "
        "true. False for endpoints that do not go on with an answer.",
    )
    ideas: str | None = option(
        None,
        "Ideas that prompts ask for in turn: none, default, or a YAML file that lists them; defaults to the value of "
        "a policy's training, or none.",
    )

    def __post_init__(self) -> None:
        check_counts(batch_size=self.batch_size, max_completion_length=self.max_completion_length)
        if not 0 <= self.seed < SEEDS:
            raise ValueError(f"--seed must be from 0 to {SEEDS - 1}, got {self.seed}")

    def harnesses(
        self,
        policy_name: str,
        max_new_tokens: int,
        competitions: Sequence[Competition],
        executor: Executor,
        log_path: Path,
        best_solutions_dir: Path,
        settings: Mapping[str, object],
        max_prompt_tokens: int = 0,
    ) -> Iterator[Harness]:
        """A policy in each competition, with the log of an earlier run; `settings` are further ones of the log."""
        policy, folder = load_policy(policy_name), log_path.parent
        begin, source = how_to_ask(policy_name, self.begin_program, self.ideas)
        limits = keep_packages(executor.limits, folder, begun_in=folder if any(folder.glob("*.jsonl")) else None)
        ideas = Ideas(source, self.seed, limits.packages)
        all_settings = {name: getattr(self, name) for name in ("seed", "batch_size", *OF_A_PROGRAM)} | {
            "policy": policy.identity,
            "begin_program": begin,
            "ideas": ideas.identity,
            "max_completion_length": max_new_tokens,
            "max_prompt_length": max_prompt_tokens,
            **settings,
        }
        log = ProgramLog(log_path, all_settings, {item.id: content_digest(item) for item in competitions})
        options: Any = {"best_solutions_dir": best_solutions_dir, "reuse_results": self.reuse_results}
        reward = MLEReward(competitions, executor, **options)
        for competition in competitions:
            yield Harness(
                policy, competition, reward, log, max_new_tokens, max_prompt_tokens, limits, self.seed,
                self.batch_size, begin, ideas,
            )  # fmt: skip
