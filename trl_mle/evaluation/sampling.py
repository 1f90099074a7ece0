"""What a policy is worth: programs sampled from it, executed and graded."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from rich.console import Console

from trl_mle.competitions import Competition
from trl_mle.evaluation.evaluation_log import EvaluationLog, Sample
from trl_mle.evaluation.policies import Policy, Prompt
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward


class NoAnswerError(ValueError):
    """A policy has not answered; what it has answered is kept."""


@dataclass(frozen=True)
class Summary:
    """
    Sampled programs in figures.

    Args:
        num_samples (`int`):
            Programs sampled.
        num_valid (`int`):
            Those with a valid submission.
        num_untrained (`int`, *optional*):
            Those valid ones that were never seen to train a model: they may have gamed the metric. `None` if the programs
            were not instrumented.
        mean_score (`float`, *optional*):
            Mean over the valid ones; `None` without any.
        best_score (`float`, *optional*):
            The best of them.
        mean_duration_s (`float`, *optional*):
            Mean Δt of the programs that ran, in seconds.
    """

    num_samples: int
    num_valid: int
    num_untrained: int | None
    mean_score: float | None
    best_score: float | None
    mean_duration_s: float | None

    @property
    def valid_rate(self) -> float:
        """Share of the samples with a valid submission."""
        return self.num_valid / self.num_samples if self.num_samples else 0.0

    def to_dict(self) -> dict[str, float | None]:
        """The figures by their names, for JSON."""
        return {**asdict(self), "valid_rate": self.valid_rate}


def evaluate_policy(
    policy: Policy,
    competition: Competition,
    reward: MLEReward,
    log: EvaluationLog,
    num_samples: int,
    max_new_tokens: int,
    timeout_s: float,
    memory_mb: int,
    seed: int,
    batch_size: int = 64,
) -> list[Evaluation]:
    """
    Samples programs from scratch, executes and grades them; those that are in the log already are not sampled and executed
    again.

    Args:
        policy ([`Policy`]):
            Who writes them.
        competition ([`~trl_mle.competitions.Competition`]):
            What they are to solve.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades them.
        log ([`EvaluationLog`]):
            Where they are kept.
        num_samples (`int`):
            Number of programs.
        max_new_tokens (`int`):
            Length limit of a completion, in tokens.
        timeout_s (`float`):
            Time limit of a program in seconds, as the prompt states it.
        memory_mb (`int`):
            Memory limit of a program in MB, as the prompt states it.
        seed (`int`):
            Of the sampling: the first batch is sampled with it.
        batch_size (`int`, *optional*, defaults to `64`):
            Programs sampled side by side, and then executed.

    Returns:
        `list[Evaluation]`: One for each program.

    Raises:
        [`NoAnswerError`]: An endpoint has not answered all of a batch.
    """
    prompt = scratch_prompt(competition, timeout_s=timeout_s, memory_mb=memory_mb)
    evaluations = []
    for start in range(0, num_samples, batch_size):
        samples = [Sample(competition.id, "scratch", i) for i in range(start, min(start + batch_size, num_samples))]
        write(policy, log, samples, [prompt] * len(samples), max_new_tokens, seed, "scratch")
        evaluations += execute(reward, competition, log, samples)
    return evaluations


def write(
    policy: Policy,
    log: EvaluationLog,
    samples: Sequence[Sample],
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    seed: int,
    step: str,
    parents: Sequence[int | None] | None = None,
) -> None:
    """
    Samples one batch of completions, of those that are not in the log.

    Args:
        policy ([`Policy`]):
            Who writes them.
        log ([`EvaluationLog`]):
            Where they are kept.
        samples (`Sequence[Sample]`):
            Which they are.
        prompts (`Sequence[Prompt]`):
            What is asked for each.
        max_new_tokens (`int`):
            Length limit of a completion, in tokens.
        seed (`int`):
            Sample i is seeded with `seed + i`; where a batch has one seed, that is its first sample's.
        step (`str`):
            What they are, see [`~trl_mle.evaluation.evaluation_log.Written`].
        parents (`Sequence[int | None]`, *optional*):
            Index of the program that each prompt shows.

    Raises:
        [`NoAnswerError`]: Not all are answered.
    """
    missing = [i for i, sample in enumerate(samples) if sample not in log.written]
    if not missing:
        return
    wanted = [samples[i] for i in missing]
    last = max(sample.index for sample in wanted) + 1
    with Console(stderr=True).status(f"{log.path.stem}, {wanted[0].competition}: sampling up to program {last}"):
        started_s = log.now()
        completions = policy.sample(
            [prompts[i] for i in missing], max_new_tokens, [seed + sample.index for sample in wanted]
        )
    log.add_completions(wanted, completions, started_s, step, [parents[i] if parents else None for i in missing])
    unanswered = sum(completion.text is None for completion in completions)
    if unanswered:
        raise NoAnswerError(
            f"{policy.identity} has not answered {unanswered} of {len(completions)} prompts: it is down, slow, or refuses them "
            f"as too long; the same command goes on from here ({log.path})"
        )


def execute(
    reward: MLEReward, competition: Competition, log: EvaluationLog, samples: Sequence[Sample]
) -> list[Evaluation]:
    """Executes and grades completions, of those that are not in the log; returns the evaluations of all."""
    missing = [sample for sample in samples if sample not in log.evaluations]
    fresh = reward.evaluate_many(
        [(log.written[sample].text, competition) for sample in missing],
        on_done=lambda index, evaluation: log.add_evaluation(missing[index], evaluation),
    )
    found = log.evaluations | dict(zip(missing, fresh, strict=True))
    return [found[sample] for sample in samples]


def count_executed(evaluations: Iterable[Evaluation]) -> int:
    """How many of the completions held a program, which was executed."""
    return sum(evaluation.source is not None for evaluation in evaluations)


def score_of(evaluation: Evaluation | None) -> float | None:
    """The score on the hidden answers; `None` without a valid submission."""
    return evaluation.score.value if evaluation is not None and evaluation.score is not None else None


def best_evaluation(evaluations: Sequence[Evaluation], higher_is_better: bool) -> Evaluation | None:
    """The valid evaluation with the best score."""
    sign = 1 if higher_is_better else -1
    valid = [evaluation for evaluation in evaluations if evaluation.valid]
    return max(valid, key=lambda evaluation: sign * evaluation.score.value, default=None)  # type: ignore[union-attr,operator]


def summarize(evaluations: Sequence[Evaluation], higher_is_better: bool) -> Summary:
    """The figures of sampled programs. Failures of our own infrastructure are left out."""
    evaluations = [evaluation for evaluation in evaluations if evaluation.reward is not None]
    scores = [score for evaluation in evaluations if (score := score_of(evaluation)) is not None]
    durations = [evaluation.duration_s for evaluation in evaluations if evaluation.duration_s is not None]
    return Summary(
        num_samples=len(evaluations),
        num_valid=len(scores),
        num_untrained=sum(
            evaluation.valid and "model_trained" not in evaluation.milestones for evaluation in evaluations
        )
        if any(evaluation.milestones for evaluation in evaluations)
        else None,
        mean_score=fmean(scores) if scores else None,
        best_score=(max if higher_is_better else min)(scores) if scores else None,
        mean_duration_s=fmean(durations) if durations else None,
    )
