"""What every way of evaluating shares: a policy is asked, its programs are executed and graded, and all of it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from trl_mle.competitions import Competition
from trl_mle.evaluation.policies import Policy, Prompt
from trl_mle.evaluation.sample_log import Sample, SampleLog
from trl_mle.execution import Limits
from trl_mle.prompts import improve_prompt, scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward, cut_middle


class NoAnswerError(ValueError):
    """A policy has not answered; what it has answered is kept."""


@dataclass(frozen=True)
class Harness:
    """
    One policy at one competition. What is in the log already is not sampled and executed again.

    Args:
        policy ([`Policy`]):
            Who writes the programs.
        competition ([`~trl_mle.competitions.Competition`]):
            What they are to solve.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades them.
        log ([`SampleLog`]):
            Where they are kept.
        max_new_tokens (`int`):
            Length limit of a completion, in tokens.
        max_prompt_tokens (`int`):
            Length limit of a prompt that shows a program, in tokens.
        limits ([`~trl_mle.execution.Limits`]):
            What a program may use, as the prompt states it.
        seed (`int`):
            Seed of the sampling.
        batch_size (`int`, *optional*, defaults to `64`):
            Programs sampled side by side, and then executed.
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

    def scratch_prompt(self) -> Prompt:
        """Asks for a program from scratch."""
        return scratch_prompt(self.competition, self.limits)

    def improve_prompt(self, evaluation: Evaluation, failed: bool = False) -> Prompt:
        """
        Asks for a better program than one that was executed. It shows what that one printed, never its graded score.

        Args:
            evaluation ([`~trl_mle.rewards.Evaluation`]):
                The program.
            failed (`bool`, *optional*, defaults to `False`):
                Whether it is to be repaired.

        Raises:
            `ValueError`: The prompt is longer than `max_prompt_tokens` even without the program.
        """
        return improve_prompt(
            self.competition, evaluation.source or "", cut_middle(evaluation.output), limits=self.limits, failed=failed,
            max_tokens=self.max_prompt_tokens, count_tokens=self.policy.count_tokens,
        )  # fmt: skip

    def write(
        self,
        samples: Sequence[Sample],
        prompts: Sequence[Prompt],
        step: str,
        parents: Sequence[int | None] | None = None,
        seeds_used: int = 0,
    ) -> None:
        """
        Samples one batch of completions, of those that are not in the log.

        Args:
            samples (`Sequence[Sample]`):
                Which they are.
            prompts (`Sequence[Prompt]`):
                What is asked for each.
            step (`str`):
                What they are, see [`~trl_mle.evaluation.sample_log.Written`].
            parents (`Sequence[int | None]`, *optional*):
                Index of the program that each prompt shows.
            seeds_used (`int`, *optional*, defaults to `0`):
                Seeds that a round before has used up. Sample i is seeded with `seed + seeds_used + i`; where a batch has
                one seed, that is its first sample's.

        Raises:
            [`NoAnswerError`]: Not all are answered.
        """
        missing = [i for i, sample in enumerate(samples) if sample not in self.log.written]
        if not missing:
            return
        wanted = [samples[i] for i in missing]
        name, last = self.log.path.stem, max(sample.index for sample in wanted) + 1
        with Console(stderr=True).status(f"{name}, {self.competition.id}: sampling up to program {last}"):
            started_s = self.log.now()
            completions = self.policy.sample(
                [prompts[i] for i in missing],
                self.max_new_tokens,
                [self.seed + seeds_used + sample.index for sample in wanted],
            )
        shown = [parents[i] if parents else None for i in missing]
        self.log.add_completions(wanted, completions, started_s, step, shown)
        unanswered = sum(completion.text is None for completion in completions)
        if unanswered:
            raise NoAnswerError(
                f"{self.policy.identity} has not answered {unanswered} of {len(completions)} prompts: it is down, slow, or "
                f"refuses them as too long; the same command goes on from here ({self.log.path})"
            )

    def execute(self, samples: Sequence[Sample]) -> list[Evaluation]:
        """Executes and grades completions, of those that are not in the log; returns the evaluations of all."""
        missing = [sample for sample in samples if sample not in self.log.evaluations]
        fresh = self.reward.evaluate_many(
            [(self.log.written[sample].text, self.competition) for sample in missing],
            on_done=lambda index, evaluation: self.log.add_evaluation(missing[index], evaluation),
        )
        found = self.log.evaluations | dict(zip(missing, fresh, strict=True))
        return [found[sample] for sample in samples]
