"""The default dataset, built from competitions."""

import math
import random
from collections import Counter
from functools import partial
from typing import Any

from accelerate.logging import get_logger
from datasets import Dataset

from trl_mle.competitions import TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Limits
from trl_mle.prompts import Ideas, PromptsWhenRead, scratch_prompt
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


logger = get_logger(__name__)  # for the main process


def scratch_dataset(competitions: TaskSet, limits: Limits, args: MLEGRPOConfig) -> Dataset:
    """
    Builds a dataset of prompts from scratch, with the columns `prompt` and `competition`, and with `args.ideas`
    `idea`. A prompt is made, and its competition loaded, when its row is read.

    Competitions come in the order of a [`rotation`]. With `max_steps`, all steps are in one epoch. Otherwise, an epoch
    is the shortest one that has every competition equally often and ends with an optimizer step.
    """
    prompts = args.completions_per_batch // args.group_size
    if args.max_steps > 0:
        micro_steps = args.max_steps * args.gradient_accumulation_steps
        count = prompts * math.ceil(micro_steps / args.micro_steps_per_generation)
    elif args.ideas != "none":
        raise ValueError("ideas take turns over all steps, which an epoch is too short for: set max_steps")
    else:
        micro_steps = math.lcm(args.micro_steps_per_generation, args.gradient_accumulation_steps)
        count = math.lcm(prompts * micro_steps // args.micro_steps_per_generation, len(competitions))
    if prompts == 1 < len(competitions):
        logger.warning(
            "%d competitions and one group a step, so that the policy may forget others: set num_generations to a "
            "quarter or less of the completions of a step",
            len(competitions),
        )
    order = rotation(len(competitions), count, prompts, args.seed if args.shuffle_dataset else None)
    names = list(competitions)
    make = partial(scratch_prompt, limits=limits, begin_program=args.begins_answers)
    asked = PromptsWhenRead(competitions, make, Ideas(args.ideas, args.seed, limits.packages))
    return asked.dataset([names[i] for i in order])


def longest_prompt(competitions: TaskSet, name: str, limits: Limits, args: MLEGRPOConfig) -> list[dict[str, str]]:
    """The longest prompt from scratch that a competition's groups get in training. Raises [`CompetitionError`]."""
    competition = competitions[name]
    with competitions.blaming(name):
        ideas = Ideas(args.ideas, args.seed, limits.packages).of(competition)
        idea = max(ideas, key=lambda idea: len(repr(idea)), default=None)
        return scratch_prompt(competition, limits, begin_program=args.begins_answers, idea=idea)


def check_prompts(trainer: Any, train_dataset: Any, eval_dataset: Any) -> None:
    """Raises `ValueError` if some rows of a trainer's datasets have unknown competitions or prompts that are too long,
    or if there is no whole batch. Prompts of an environment or a stream are checked when they arrive."""
    is_judged = trainer.reward is not None and trainer.args.objective == "reward" and trainer.is_world_process_zero()
    if is_judged and (clipped := _clipped(trainer.reward)):
        why = f"a constant guess gets the lowest reward of a valid program, {trainer.reward.floor:g}"
        logger.warning("%s, for %s: train with objective: max_at_k", why, ", ".join(clipped))
    datasets = list(eval_dataset.values()) if isinstance(eval_dataset, dict) else [eval_dataset]
    if trainer.makes_dataset:
        tasks = trainer.competitions
        asked = [longest_prompt(tasks, name, trainer.limits, trainer.args) for name in tasks.few()]
        trainer._tokenize_prompts(asked)
    elif isinstance(train_dataset, Dataset):
        groups = trainer.args.completions_per_batch // trainer.args.group_size
        if len(train_dataset) < groups:  # TRL would drop all of it
            raise ValueError(f"train_dataset has {len(train_dataset)} rows for {groups} groups: repeat its rows")
        datasets.insert(0, train_dataset)
    if trainer.environment_factories is not None:
        return
    for dataset in datasets:
        if not isinstance(dataset, Dataset) or not len(dataset):
            continue
        rows = [dataset[i * len(dataset) // FEW] for i in range(FEW)] if len(dataset) > FEW else list(dataset)
        trainer._tokenize_prompts([row["prompt"] for row in rows])
        if trainer.reward is not None and not trainer.reward.overrides("evaluations", "items"):
            trainer.reward.check_known([row["competition"] for row in rows] if "competition" in rows[0] else None)


def _clipped(reward: Any) -> list[str]:
    """Competitions whose constant guess gets the floor, so that most programs may get it, too."""
    few = map(reward.competitions.__getitem__, reward.competitions.few())
    guesses = [(item, item.grade(item.sample_submission).value) for item in few if not item.grader]
    return [item.id for item, score in guesses if score is not None and item.scoring.gain(score) < reward.floor]


def rotation(competitions: int, count: int, groups: int, seed: int | None) -> list[int]:
    """The order of competitions, one for each of `count` groups: in rounds, shuffled if there is a seed. Where a round
    ends within a batch of `groups`, the next one begins with those that the batch lacks."""
    rng = random.Random(seed)
    order: list[int] = []
    while len(order) < count:
        if seed is None:
            order += range(competitions)
        else:
            in_batch = Counter(order[len(order) // groups * groups :])
            order += sorted(rng.sample(range(competitions), competitions), key=in_batch.__getitem__)
    return order[:count]
