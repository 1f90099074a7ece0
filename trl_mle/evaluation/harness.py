"""The common part of all evaluations: sample a policy, execute and grade its programs, and log everything."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from trl_mle.competitions import Competition
from trl_mle.evaluation.policies import Policy, Prompt
from trl_mle.evaluation.sample_log import Sample, SampleLog
from trl_mle.execution import Limits
from trl_mle.prompts import Ideas, improve_prompt, scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward, cut_middle
from trl_mle.showing import PlainConsole, terminal_line


SEEDS = 2**32  # NumPy's range of seeds


class NoAnswerError(ValueError):
    """A policy has not answered all prompts. Answers received so far are kept."""


def check_seed(seed: int) -> None:
    """Raises `ValueError` if the seed is out of range."""
    if not 0 <= seed < SEEDS:
        raise ValueError(f"--seed must be from 0 to {SEEDS - 1}, got {seed}")


def sample_seeds(seed: int, competition: Competition, numbers: Iterable[int]) -> list[int]:
    """
    Seeds of a competition's samples, by their numbers. Each competition has its own: from the same seeds, a model answers
    similar prompts alike, so that 4 programs for each of 32 tasks would be 4 draws rather than 128. So has each seed: runs with
    the seeds 0 and 1 share no sample.
    """
    first = int.from_bytes(hashlib.sha256(f"{seed} {competition.id}".encode()).digest()[:4], "big")
    return [(first + number) % SEEDS for number in numbers]


@dataclass(frozen=True)
class Harness:
    """
    One policy in one competition. Samples and executions that are already in the log are not repeated.

    Args:
        policy ([`Policy`]):
            The policy that writes the programs.
        competition ([`~trl_mle.competitions.Competition`]):
            The competition to solve.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades the programs.
        log ([`SampleLog`]):
            Stores completions and evaluations.
        max_new_tokens (`int`):
            Length limit of a completion, in tokens.
        max_prompt_tokens (`int`):
            Length limit of a prompt that shows a program, in tokens.
        limits ([`~trl_mle.execution.Limits`]):
            Limits of a program, as stated in the prompt.
        seed (`int`):
            Seed of the sampling.
        batch_size (`int`, *optional*, defaults to `64`):
            Programs that are sampled, and then executed, at a time.
        begin_program (`bool`, *optional*, defaults to `True`):
            Whether prompts begin the answer, see [`~trl_mle.prompts.scratch_prompt`].
        ideas ([`~trl_mle.prompts.Ideas`], *optional*):
            What programs from scratch are asked to fit, in turn.
    """

    policy: Policy
    competition: Competition
    reward: MLEReward
    log: SampleLog
    max_new_tokens: int
    max_prompt_tokens: int
    limits: Limits
    seed: int
    batch_size: int = 64
    begin_program: bool = True
    ideas: Ideas | None = None

    def scratch_prompt(self, index: int) -> Prompt:
        """The prompt for a program from scratch, which asks for the idea whose turn is at this index."""
        idea = self.ideas.turn(self.competition, index) if self.ideas else None
        return scratch_prompt(self.competition, self.limits, begin_program=self.begin_program, idea=idea)

    def improve_prompt(self, evaluation: Evaluation, failed: bool = False) -> Prompt:
        """
        The prompt for a better version of an executed program, or for a repair of a failed one. It shows the program's
        output, never its graded score. Raises `ValueError` if it is longer than `max_prompt_tokens` even without the
        program.
        """
        return improve_prompt(
            self.competition, evaluation.source or "", cut_middle(evaluation.output), limits=self.limits, failed=failed,
            max_tokens=self.max_prompt_tokens, count_tokens=self.policy.count_tokens,
            begin_program=self.begin_program,
        )  # fmt: skip

    def write(
        self,
        samples: Sequence[Sample],
        prompts: Sequence[Prompt],
        step: str,
        parents: Sequence[int | None] | None = None,
        seeds_used: int = 0,
        until_s: float = math.inf,
    ) -> None:
        """
        Samples the completions of a batch that are not in the log yet.

        Args:
            samples (`Sequence[Sample]`):
                Keys of the completions.
            prompts (`Sequence[Prompt]`):
                The prompt of each completion.
            step (`str`):
                Kind of the prompts, see [`~trl_mle.evaluation.sample_log.Written`].
            parents (`Sequence[int | None]`, *optional*):
                Index of the program that each prompt shows.
            seeds_used (`int`, *optional*, defaults to `0`):
                Number of seeds of earlier rounds: sample i has the number `seeds_used + i` in [`sample_seeds`].
            until_s (`float`, *optional*):
                When the policy's time is up, in seconds of the log, see [`~trl_mle.evaluation.policies.Policy`].

        Raises:
            [`NoAnswerError`]: Not all prompts were answered, although there was time.
        """
        missing = [i for i, sample in enumerate(samples) if sample not in self.log.written]
        if not missing:
            return
        wanted = [samples[i] for i in missing]
        name, last = self.log.path.stem, max(sample.index for sample in wanted) + 1
        note = terminal_line(f"{name}, {self.competition.id}: sampling up to program {last}")
        with PlainConsole(stderr=True).status(Text(note)):
            completions = self.policy.sample(
                [prompts[i] for i in missing],
                self.max_new_tokens,
                sample_seeds(self.seed, self.competition, (seeds_used + sample.index for sample in wanted)),
                max(until_s - self.log.now(), 0.0),
            )
        shown = [parents[i] if parents else None for i in missing]
        self.log.add_completions(wanted, completions, step, shown)
        errors = [completion.error for completion in completions if completion.text is None]
        if errors and self.log.now() < until_s:
            raise NoAnswerError(
                f"{self.policy.identity} has not answered {len(errors)} of {len(completions)} prompts; run the same command again to "
                f"resume ({self.log.path}); the last error was: {errors[-1] or 'unknown'}"
            )

    def execute(self, samples: Sequence[Sample], until_s: float = math.inf) -> list[Evaluation]:
        """
        Executes and grades completions that are not in the log yet; returns the evaluations of all. Programs that still run
        at `until_s`, in seconds of the log, end without one.
        """
        missing = [sample for sample in samples if sample not in self.log.evaluations]
        fresh = self.reward.evaluate_many(
            [(self.log.written[sample].text, self.competition) for sample in missing],
            on_done=lambda index, evaluation: self.log.add_evaluation(missing[index], evaluation),
            time_is_up=lambda: self.log.now() >= until_s,
        )
        found = self.log.evaluations | dict(zip(missing, fresh, strict=True))
        return [found[sample] for sample in samples]
