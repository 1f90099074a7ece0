"""Best of N on fixed prompts during training."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trl_mle.competitions import Competition
from trl_mle.evaluation.harness import sample_seeds
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sampling import summarize
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward


if TYPE_CHECKING:
    from trl_mle.trainer import MLEGRPOTrainer


class BestOfNCallback(TrainerCallback):
    """
    Every `every` steps, samples N programs from scratch for each of the trainer's competitions (of many, for 32), with the
    same seeds each time, and logs `mle/eval/…` (see docs/metrics.md). All processes take part. Training is not affected:
    random generators are restored, and the solution pool does not change.

    Args:
        trainer ([`~trl_mle.trainer.MLEGRPOTrainer`]):
            The trainer that the callback is added to.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades the programs. Use a separate one, so that its log and best solutions do not mix with
            training's.
        num_samples (`int`):
            N, over all processes.
        every (`int`):
            Optimizer steps between two evaluations.
        seed (`int`, *optional*, defaults to `1_000_000`):
            Sampling seed; far from the seeds of training.
        batch_size (`int`, *optional*, defaults to `64`):
            Programs that a process samples at a time.

    Example:

    ```python
    >>> trainer.add_callback(BestOfNCallback(trainer, MLEReward(["digits"], executor), num_samples=64, every=10))
    ```
    """

    def __init__(
        self,
        trainer: "MLEGRPOTrainer",
        reward: MLEReward,
        num_samples: int,
        every: int,
        seed: int = 1_000_000,
        batch_size: int = 64,
    ):
        if num_samples < 1 or every < 1:
            raise ValueError(f"num_samples={num_samples} and every={every} must be at least 1")
        self.trainer = trainer
        self.reward = reward
        self.num_samples = num_samples
        self.every = every
        self.seed = seed
        self.batch_size = batch_size

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step % self.every:
            return
        competitions = [self.trainer.competitions[name] for name in self.trainer.competitions.few()]
        for competition, evaluations in zip(competitions, self.sample(competitions), strict=True):
            prefix = f"mle/eval/{competition.slug}" if len(competitions) > 1 else "mle/eval"
            summary = summarize(evaluations, competition.higher_is_better)
            metrics = {
                "valid_rate": summary.valid_rate,
                "mean_score": summary.mean_score,
                "best_of_n": summary.best_score,
            }
            if competition.holdout:
                by_test = summarize(evaluations, competition.higher_is_better, "test")
                metrics["best_of_n_by_test"] = by_test.best_score
            if summary.num_valid and summary.num_untrained is not None:
                metrics["untrained_valid_rate"] = summary.num_untrained / summary.num_valid
            for name, value in metrics.items():
                if value is not None:  # TRL's next log includes it
                    self.trainer._metrics["train"][f"{prefix}/{name}"].append(value)

    def sample(self, competitions: Sequence[Competition]) -> list[list[Evaluation]]:
        """Evaluations of N programs from the current policy for each competition; all processes return the same."""
        trainer = self.trainer
        rank, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
        own = range(rank, self.num_samples, processes)
        length = trainer.args.max_completion_length
        assert length is not None, "GRPOConfig has a default"
        items: list[tuple[str, Competition | str]] = []
        with (
            _generators_kept(trainer.accelerator.device),
            trainer.model_for_generation(trainer.model_wrapped) as model,
        ):
            policy = TransformersPolicy(
                model,
                trainer.processing_class,
                chat_template_kwargs=trainer.args.chat_template_kwargs,  # type: ignore[arg-type]  # parsed by now
            )
            for competition in competitions:
                prompt = scratch_prompt(competition, trainer.limits, begin_program=trainer.args.begin_program)
                for start in range(0, len(own), self.batch_size):
                    seeds = sample_seeds(self.seed, competition, own[start : start + self.batch_size])
                    completions = policy.sample([prompt] * len(seeds), length, seeds)
                    items += [(completion.text or "", competition) for completion in completions]
        evaluations = self.reward.evaluate_many(items)  # outside the block: the instrumenter may need the weights
        by_competition = [evaluations[i * len(own) : (i + 1) * len(own)] for i in range(len(competitions))]
        return [gather_object(part) for part in by_competition]


@contextmanager
def _generators_kept(device: torch.device) -> Iterator[None]:
    """Restores all random generators."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    random.setstate(python)
    np.random.set_state(numpy)
