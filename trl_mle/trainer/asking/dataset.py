"""The default dataset, built from competitions."""

import math
import random
from collections import Counter
from functools import partial

from accelerate.logging import get_logger
from datasets import Dataset

from trl_mle.competitions import TaskSet
from trl_mle.execution import Limits
from trl_mle.prompts import Ideas, PromptsWhenRead, scratch_prompt
from trl_mle.trainer.batch import Row
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


logger = get_logger(__name__)  # for the main process


def scratch_dataset(competitions: TaskSet, limits: Limits, args: MLEGRPOConfig) -> Dataset:
    """
    Builds a dataset of prompts from scratch (see [`scratch_prompt`]) with the columns `prompt` and `competition`, in the
    order of a [`rotation`], and with `args.ideas` the column `idea`, which take turns.

    Prompts are repeated, because TRL's sampler drops an incomplete generation batch. With `max_steps`, all steps are in one
    epoch, so that no round repeats another's order. Otherwise, an epoch is the shortest one that has every competition
    equally often and ends with an optimizer step. A prompt is made when its row is read, and only then is its competition
    loaded.
    """
    prompts = args.completions_per_batch // args.group_size
    if args.max_steps > 0:
        micro_steps = args.max_steps * args.gradient_accumulation_steps
        count = prompts * math.ceil(micro_steps / args.micro_steps_per_generation)
    else:
        micro_steps = math.lcm(args.micro_steps_per_generation, args.gradient_accumulation_steps)
        count = math.lcm(prompts * micro_steps // args.micro_steps_per_generation, len(competitions))
    if prompts == 1 < len(competitions):
        logger.warning(
            "%d competitions and one group a step: while a step trains on one of them, the policy may forget the others; set "
            "num_generations to a quarter or less of the completions of a step",
            len(competitions),
        )
    order = rotation(len(competitions), count, prompts, args.seed if args.shuffle_dataset else None)
    names = list(competitions)
    return _scratch_prompts(competitions, limits, args).dataset([names[i] for i in order])


def few_rows(competitions: TaskSet, limits: Limits, args: MLEGRPOConfig) -> list[Row]:
    """A row for each competition, or, of many, for some: to check them before training."""
    return list(_scratch_prompts(competitions, limits, args).dataset(competitions.few()))


def _scratch_prompts(competitions: TaskSet, limits: Limits, args: MLEGRPOConfig) -> PromptsWhenRead:
    make = partial(scratch_prompt, limits=limits, begin_program=args.begin_program)
    return PromptsWhenRead(competitions, make, Ideas(args.ideas, args.seed))


def rotation(competitions: int, count: int, groups: int, seed: int | None) -> list[int]:
    """The order in which competitions are asked for, one for each of `count` groups: in rounds, so that each comes
    once before any comes twice, shuffled if there is a seed. Where a round ends within a batch of `groups`, the
    next one begins with those that the batch lacks. A larger `count` only appends."""
    rng = random.Random(seed)
    order: list[int] = []
    while len(order) < count:
        if seed is None:
            order += range(competitions)
        else:
            asked = Counter(order[len(order) // groups * groups :])
            order += sorted(rng.sample(range(competitions), competitions), key=asked.__getitem__)
    return order[:count]
