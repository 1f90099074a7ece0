"""The default dataset, built from competitions."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from accelerate.logging import get_logger
from datasets import Dataset

from trl_mle.competitions import Competition
from trl_mle.execution import Limits
from trl_mle.prompts import scratch_prompt
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


logger = get_logger(__name__)  # for the main process


def scratch_rows(
    competitions: Sequence[Competition], limits: Limits, begin_program: bool = False
) -> dict[str, dict[str, Any]]:
    """
    For each competition, by id, a row with the columns `prompt` (from scratch, stating these limits, see [`scratch_prompt`]) and
    `competition`.
    """
    prompts = [scratch_prompt(comp, limits, begin_program=begin_program) for comp in competitions]
    return {
        comp.id: {"prompt": prompt, "competition": comp.id} for comp, prompt in zip(competitions, prompts, strict=True)
    }


def scratch_dataset(rows: Sequence[dict[str, Any]], args: MLEGRPOConfig) -> Dataset:
    """
    Builds a dataset from one row per competition, in the order in which they are asked for: a [`rotation`], unless
    `shuffle_dataset` is false.

    Prompts are repeated, because TRL's sampler drops an incomplete generation batch: with too few rows, training would
    take zero steps. With `max_steps`, all steps are in one epoch, so that no round repeats another's order. Otherwise, an
    epoch is the shortest one that has every competition equally often and ends with an optimizer step.

    Args:
        rows (`Sequence[dict]`):
            Those of [`scratch_rows`].
        args ([`MLEGRPOConfig`]):
            Sizes of batches, `max_steps`, `shuffle_dataset` and `seed`.

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
    if prompts == 1 < len(rows):
        logger.warning(
            "%d competitions and one group a step: while a step trains on one of them, the policy may forget the others; set "
            "num_generations to a quarter or less of the completions of a step, and a smaller learning_rate, or beta to 0.1",
            len(rows),
        )
    order = rotation(len(rows), count, prompts, args.seed if args.shuffle_dataset else None)
    return Dataset.from_list(list(rows)).select(order)


def rotation(competitions: int, count: int, groups: int, seed: int | None) -> list[int]:
    """
    The order in which competitions are asked for: in rounds, so that each comes once before any comes twice.

    Args:
        competitions (`int`):
            Number of competitions.
        count (`int`):
            Number of groups to ask for.
        groups (`int`):
            Groups of a batch. Where a round ends within a batch, the next one begins with those that the batch lacks.
        seed (`int`, *optional*):
            Shuffles each round; `None` leaves them as they are.

    Returns:
        `list[int]`: A competition for each group. A larger `count` only appends.
    """
    rng = random.Random(seed)
    order: list[int] = []
    while len(order) < count:
        if seed is None:
            order += range(competitions)
        else:
            asked = Counter(order[len(order) // groups * groups :])
            order += sorted(rng.sample(range(competitions), competitions), key=asked.__getitem__)
    return order[:count]
