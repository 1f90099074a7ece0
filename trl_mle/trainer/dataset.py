"""The default dataset, built from competitions."""

import math
from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from trl_mle.competitions import Competition
from trl_mle.execution import Limits
from trl_mle.prompts import scratch_prompt
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


def scratch_rows(competitions: Sequence[Competition], limits: Limits) -> dict[str, dict[str, Any]]:
    """For each competition, by id, a row with the columns `prompt` (from scratch, stating these limits) and `competition`."""
    return {comp.id: {"prompt": scratch_prompt(comp, limits), "competition": comp.id} for comp in competitions}


def scratch_dataset(rows: Sequence[dict[str, Any]], args: MLEGRPOConfig) -> Dataset:
    """
    Builds a dataset from one row per competition.

    Prompts are repeated, because TRL's sampler drops an incomplete generation batch: with too few rows, training would
    take zero steps. With `max_steps`, all steps are in one epoch, because the sampler's shuffling does not survive a
    resume beyond the first. Otherwise, an epoch is the shortest one that has every competition equally often and ends
    with an optimizer step.

    Args:
        rows (`Sequence[dict]`):
            Those of [`scratch_rows`].
        args ([`MLEGRPOConfig`]):
            Sizes of batches, and `max_steps`.

    Returns:
        `Dataset`: With the columns `prompt` and `competition`.
    """
    assert args.num_generations is not None
    prompts = args.completions_per_batch // args.num_generations
    if args.max_steps > 0:
        micro_steps = args.max_steps * args.gradient_accumulation_steps
        count = prompts * math.ceil(micro_steps / args.micro_steps_per_generation)
    else:
        micro_steps = math.lcm(args.micro_steps_per_generation, args.gradient_accumulation_steps)
        count = math.lcm(prompts * micro_steps // args.micro_steps_per_generation, len(rows))
    return Dataset.from_list(list(rows)).select([i % len(rows) for i in range(count)])
