"""`trl-mle check`: looks at each competition of a task set, before a run over them begins."""

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from typing import Any

from rich.progress import track
from rich.table import Table

from trl_mle.competitions import CompetitionError, TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Limits, SandboxError
from trl_mle.execution.options import make_executor
from trl_mle.prompts import estimate_tokens, scratch_prompt
from trl_mle.scripts.grade import one_program
from trl_mle.scripts.printing import print_json
from trl_mle.showing import PlainConsole, metric_name


_look: Callable[[str], dict[str, Any]]  # of a worker process, which inherits it


def check(args: argparse.Namespace) -> int:
    """Prints what is wrong with which competition; exit code 1 if anything is."""
    global _look
    tasks = TaskSet(args.competitions, args.data_dir, args.holdout)
    count: Callable[[list[dict[str, str]]], int] = _estimate
    if args.model is not None:
        from trl_mle.launching.checks import load_tokenizer, prompt_tokens  # here, because they take seconds

        count = partial(prompt_tokens, load_tokenizer(args.model))
    limits = Limits(args.program_timeout_s, args.program_memory_mb)
    # Without a sandbox, only the packages are unknown: nothing runs here
    with suppress(SandboxError), make_executor(one_program(args), preload=False) as executor:
        limits = executor.limits
    _look = partial(look, tasks, count, args.max_prompt_length, limits)
    workers = min(len(os.sched_getaffinity(0)), len(tasks))
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        console = PlainConsole(stderr=True)
        hidden = args.json or not console.is_terminal
        results = pool.map(_look_at, tasks, chunksize=4)
        rows = list(track(results, "competitions", len(tasks), console=console, transient=True, disable=hidden))
    broken = [row for row in rows if row["problem"] is not None]
    if args.json:
        print_json(rows)
    else:
        _print(rows if len(rows) <= FEW else broken)
        print(f"{len(rows):,} competition{'s' * (len(rows) > 1)}, {len(broken):,} broken")
    return 1 if broken else 0


def look(
    tasks: TaskSet, count: Callable[[list[dict[str, str]]], int], max_prompt_length: int, limits: Limits, name: str
) -> dict[str, Any]:
    """Looks at a competition as training does before its first program."""
    row = {"competition": name} | dict.fromkeys(("metric", "higher_is_better", "prompt_tokens", "problem"))
    try:
        competition = tasks[name]
        row |= {"metric": competition.metric, "higher_is_better": competition.higher_is_better}
        with tasks.blaming(name):
            row["prompt_tokens"] = tokens = count(scratch_prompt(competition, limits, begin_program=True))
            if tokens > max_prompt_length:
                limit = f"max_prompt_length={max_prompt_length}"
                raise ValueError(f"the prompt of {name} has {tokens} tokens, more than {limit}")
    except CompetitionError as error:
        row["problem"] = str(error)
    return row


def _look_at(name: str) -> dict[str, Any]:  # which a process can be sent by its name
    return _look(name)


def _estimate(prompt: list[dict[str, str]]) -> int:
    return sum(estimate_tokens(message["content"]) for message in prompt)


def _print(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("competition", "metric", "prompt", "problem"):
        table.add_column(name, overflow="fold")
    for row in rows:
        metric = "" if row["metric"] is None else metric_name(row["metric"], row["higher_is_better"])
        tokens = "" if row["prompt_tokens"] is None else f"{row['prompt_tokens']} tokens"
        table.add_row(row["competition"], metric, tokens, row["problem"] or "")
    PlainConsole().print(table)
