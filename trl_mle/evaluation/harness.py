"""The common part of all evaluations: sample a policy, execute and grade its programs, and log everything."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from trl_mle.competitions import Competition
from trl_mle.evaluation.policies import Policy, Prompt
from trl_mle.execution import Limits
from trl_mle.prompts import Ideas, improve_prompt, scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog, Sample, cut_middle
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
        log ([`~trl_mle.rewards.ProgramLog`]):
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
    log: ProgramLog
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
        prompts: Mapping[int, Prompt],
        step: str,
        parents: Mapping[int, int | None],
        until_s: float = math.inf,
    ) -> None:
        """
        Samples the completions of a batch that are not in the log yet.

        Args:
            prompts (`Mapping[int, Prompt]`):
                The prompt of each completion, by its index.
            step (`str`):
                Kind of the prompts, see [`~trl_mle.rewards.Sample`].
            parents (`Mapping[int, int | None]`):
                Index of the program that a prompt shows.
            until_s (`float`, *optional*):
                When the policy's time is up, in seconds of the log, see [`~trl_mle.evaluation.policies.Policy`].

        Raises:
            [`NoAnswerError`]: Not all prompts were answered, although there was time.
        """
        name = self.competition.id
        missing = [index for index in prompts if (name, index) not in self.log.samples]
        if not missing:
            return
        note = terminal_line(f"{self.log.path.stem}, {name}: sampling up to program {max(missing) + 1}")
        with PlainConsole(stderr=True).status(Text(note)):
            completions = self.policy.sample(
                [prompts[index] for index in missing],
                self.max_new_tokens,
                sample_seeds(self.seed, self.competition, missing),
                max(until_s - self.log.now(), 0.0),
            )
        answers = {
            index: Sample(completion, step, parents.get(index))
            for index, completion in zip(missing, completions, strict=True)
            if completion.text is not None
        }
        self.log.add_completions(name, answers)
        if len(answers) < len(missing) and self.log.now() < until_s:
            error = next(completion.error for completion in reversed(completions) if completion.text is None)
            raise NoAnswerError(
                f"{self.policy.identity} has not answered {len(missing) - len(answers)} of {len(missing)} prompts; run the same "
                f"command again to resume ({self.log.path}); the last error was: {error or 'unknown'}"
            )

    def execute(self, indices: Sequence[int], until_s: float = math.inf) -> list[Evaluation]:
        """
        Executes and grades completions that are not in the log yet; returns the evaluations of all. Programs that still run
        at `until_s`, in seconds of the log, end without one.
        """
        samples = {index: self.log.samples[self.competition.id, index] for index in indices}
        missing = [index for index, sample in samples.items() if sample.evaluation is None]
        evaluations = self.reward.evaluate_many(
            [(samples[index].completion.text or "", self.competition) for index in missing],
            on_done=lambda i, evaluation: self.log.add_evaluation(self.competition.id, missing[i], evaluation),
            time_is_up=lambda: self.log.now() >= until_s,
        )
        new = dict(zip(missing, evaluations, strict=True))
        return [sample.evaluation or new[index] for index, sample in samples.items()]
