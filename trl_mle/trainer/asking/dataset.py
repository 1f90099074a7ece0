"""The default dataset, built from competitions."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from accelerate.logging import get_logger
from datasets import Dataset

from trl_mle.competitions import TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Limits
from trl_mle.prompts import Ideas, PromptsWhenRead, scratch_prompt
from trl_mle.rewards import MLEReward
from trl_mle.trainer.batch import Row, competition_of
from trl_mle.trainer.engine.plain_text import LongPrompt
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


logger = get_logger(__name__)  # for the main process

LONGEST = 1000  # prompts of a dataset that are checked at the start, in a second or two


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


def check_prompts(trainer: Any, train_dataset: Any, eval_dataset: Any) -> None:
    """Raises `ValueError` if the datasets of a trainer have unknown competitions, prompts that are too long, or no whole batch;
    the prompts of an environment or a stream are checked when they arrive."""
    datasets = list(eval_dataset.values()) if isinstance(eval_dataset, dict) else [eval_dataset]
    if trainer.makes_dataset:
        rows = few_rows(trainer.competitions, trainer.limits, trainer.args)
        with naming(trainer.competitions, rows):
            trainer._tokenize_prompts([row["prompt"] for row in rows])
    elif isinstance(train_dataset, Dataset):
        check_size(train_dataset, trainer.args)
        datasets.insert(0, train_dataset)
    for dataset in datasets if trainer.environment_factories is None else ():
        if isinstance(dataset, Dataset) and len(dataset):
            _check_dataset(dataset, trainer.reward, trainer._tokenize_prompts)


def _check_dataset(dataset: Dataset, reward: MLEReward | None, tokenize: Callable[[list], Any]) -> None:
    stored = dataset.with_format(None)
    has_ids = "competition" in stored.column_names
    # A transform may add ids when a row is read, and a subclass may take them from another column
    is_stored = has_ids or dataset.format["type"] != "custom"
    if reward is not None and is_stored and not reward.overrides("evaluations", "items"):
        reward.check_known(stored["competition"] if has_ids else None)
    if "prompt" in stored.column_names:
        texts = {repr(prompt): prompt for prompt in stored["prompt"]}
        prompts = [texts[text] for text in sorted(texts, key=len)[-LONGEST:]]
    else:  # made when a row is read, which loads its competition
        prompts = dataset[[i * len(dataset) // FEW for i in range(min(FEW, len(dataset)))]]["prompt"]
    tokenize(prompts)


def check_size(dataset: Dataset, args: MLEGRPOConfig) -> None:
    """Raises `ValueError` if a dataset has no whole batch: TRL would drop all of it."""
    groups = args.completions_per_batch // args.group_size
    if len(dataset) < groups:
        raise ValueError(
            f"train_dataset has fewer rows ({len(dataset)}) than a generation batch has groups ({groups}): repeat its rows, or "
            "raise num_generations"
        )


@contextmanager
def naming(competitions: TaskSet, rows: list[Row]) -> Iterator[None]:
    """Names the competition of a prompt that is too long."""
    try:
        yield
    except LongPrompt as error:
        name = next((competition_of(row, competitions) for row in rows if row.get("prompt") == error.prompt), None)
        if name is None or name not in competitions:
            raise
        with competitions.blaming(name):
            raise


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
