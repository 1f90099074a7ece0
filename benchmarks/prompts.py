"""
Measures what a pretrained model does with the prompts: which share of its programs is valid, and how the others fail.

    python benchmarks/prompts.py --models coder-0.5b

Written down before the first run:

- Question: what does a small pretrained model write when it gets our prompt from scratch, and where does it fail?
- 32 programs for each of the 4 local competitions, the 12 mirrors and 2 tables made by `trl-mle new`, at temperature 1, with at
  most 1,024 tokens. The same completions, cut off after 448 tokens, are those of that limit: what a model writes first does not
  depend on where it will be cut off.
- Primary outcomes: the share of valid programs and the mean number of the 7 milestones. Beside them the mean reward (the paper's)
  and the kinds of failure. 95% intervals: over the programs of a competition Wilson's for shares and Student's for means; over
  competitions by bootstrap over competitions and their programs.
- Prompts are chosen by what they do on one half of the competitions (`--half choose`: every second one, the first included) and
  reported on the other (`--half report`), whose answers nobody reads before.

`--plan` measures the prompts that ask for a plan first. The earlier prompts are those of commit 99a689c.
Sampling takes minutes a competition in this process, and less from a vLLM server, also on a CPU: `--endpoint URL`.

Finished programs are lines in the output folder, and neither sampled nor executed again.
"""

import argparse
import ast
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from paired import interval
from rich.table import Table
from scipy.stats import binomtest

from trl_mle.showing import PlainConsole


ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests")]

from support.pretrained import MODELS, pretrained, pretrained_tokenizer  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from trl_mle.competitions import Competition, list_competitions, load_competition  # noqa: E402
from trl_mle.competitions.own import new_competition  # noqa: E402
from trl_mle.evaluation.harness import Harness, sample_programs, sample_seeds  # noqa: E402
from trl_mle.evaluation.policies import EndpointPolicy, Policy, Prompt, TransformersPolicy  # noqa: E402
from trl_mle.execution import LocalExecutor, Outcome  # noqa: E402
from trl_mle.instrumentation import AstInstrumenter  # noqa: E402
from trl_mle.models import Completion  # noqa: E402
from trl_mle.prompts import opening_of  # noqa: E402
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog  # noqa: E402


LIMITS = (1024, 448)  # tokens of a completion; the first is sampled
LOCAL = ("digits", "breast-cancer", "diabetes", "wine")
KINDS = {  # by the last line of a traceback
    "import": r"(ModuleNotFound|Import)Error",
    "no such column": r"KeyError|.*(not in index|not found in axis|has no attribute)",
    "no such file": r"(FileNotFound|NotADirectory|IsADirectory)Error",
    "undefined name": r"(Name|UnboundLocal)Error",
    "text as number": r".*(could not convert|cannot convert|invalid literal|not supported between)",
    "wrong shape": r".*(inconsistent numbers|shape|length|dimension|reshape|X has \d+ features|feature names)",
    "missing values": r".*(NaN|missing values)",
}


def make_tables(folder: Path) -> list[Competition]:
    """Two tables as people bring them, with words, missing values and a target among the features, as `trl-mle new` takes them."""
    rng = np.random.default_rng(0)
    n = 900
    sex, port = (
        rng.choice(["male", "female"], n),
        rng.choice(["Southampton", "Cherbourg", "Queenstown"], n, p=[0.7, 0.2, 0.1]),
    )
    age, cabin_class = rng.gamma(6, 5, n).round(), rng.choice([1, 2, 3], n, p=[0.25, 0.2, 0.55])
    odds = 1.5 + 2.4 * (sex == "female") - 0.9 * cabin_class - 0.02 * age
    passengers = pd.DataFrame({
        "Survived": (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int), "Pclass": cabin_class, "Sex": sex,
        "Age": np.where(rng.random(n) < 0.2, np.nan, age), "SibSp": rng.poisson(0.5, n),
        "Fare": (120 / cabin_class**1.5 * rng.lognormal(0, 0.5, n)).round(2), "Embarked": np.where(rng.random(n) < 0.01, None, port),
    })  # fmt: skip
    area, rooms = rng.gamma(9, 8, n).round(), rng.integers(1, 6, n)
    district = rng.choice(["Altstadt", "Nordend", "Westhafen", "Sachsenhausen"], n)
    rent = 8 + 4 * (district == "Westhafen") + 2 * (district == "Nordend") + rng.normal(0, 1.5, n)
    flats = pd.DataFrame({
        "district": district, "living area": area, "rooms": rooms, "year built": np.where(rng.random(n) < 0.3, np.nan, rng.integers(1890, 2020, n)),
        "balcony": rng.choice(["yes", "no"], n), "heating": rng.choice(["gas", "district", "oil", None], n), "rent": (rent * area).round(2),
    })  # fmt: skip
    made = []
    for name, table, target, metric in (
        ("passengers", passengers, "Survived", "roc_auc"),
        ("flats", flats, "rent", "rmse"),
    ):
        if not (folder / name).is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            table.to_csv(folder / f"{name}.csv", index=False)
            new_competition(folder / f"{name}.csv", [target], metric, folder / name)
        made.append(load_competition(str(folder / name)))
    return made


def kind_of(evaluation: Evaluation, is_cut_off: bool) -> str:
    """How a completion ended, in a few words."""
    if evaluation.valid:
        return "valid"
    if evaluation.source is None:
        return "cut off" if is_cut_off else "no code"
    try:
        ast.parse(evaluation.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "cut off" if is_cut_off else "does not parse"
    if evaluation.outcome == Outcome.OK:
        return "no submission" if evaluation.detail.startswith("no submission.csv") else "bad submission"
    if evaluation.outcome != Outcome.ERROR:
        return evaluation.outcome.replace("_", " ")
    for kind, pattern in KINDS.items():
        if re.match(pattern, evaluation.detail):
            return kind
    return "other error"


class CutOff:
    """The completions of a log of a competition, cut off after fewer tokens; seeds say which, as with a [`Harness`] of seed 0."""

    def __init__(self, policy: Policy, tokenizer: Any, log: ProgramLog, competition: Competition):
        self.identity = policy.identity
        self.count_tokens = policy.count_tokens
        self._tokenizer = tokenizer
        seeds = sample_seeds(0, competition, (index for _, index in log.samples))
        completions = [sample.completion for sample in log.samples.values()]
        self._completions = dict(zip(seeds, completions, strict=True))

    def sample(
        self, prompts: Sequence[Prompt], max_new_tokens: int, seeds: Sequence[int], max_time_s: float = math.inf
    ) -> list[Completion]:
        """See [`Policy`]."""
        completions = []
        for prompt, whole in zip(prompts, (self._completions[seed] for seed in seeds), strict=True):
            opening = opening_of(prompt)
            ids = self._tokenizer((whole.text or "").removeprefix(opening), add_special_tokens=False)["input_ids"]
            text = opening + self._tokenizer.decode(ids[:max_new_tokens])
            completions.append(Completion(text, min(whole.tokens, max_new_tokens), whole.prompt_tokens))
        return completions


class UnseededEndpoint(EndpointPolicy):
    """Without seeds: with them, vLLM 0.31 fails on a CPU."""

    def sample(
        self, prompts: Sequence[Prompt], max_new_tokens: int, seeds: Sequence[int], max_time_s: float = math.inf
    ) -> list[Completion]:
        """See [`Policy`]."""
        return self.endpoint.complete(prompts, max_new_tokens, max_time_s=max_time_s)


def measure(name: str, competitions: Sequence[Competition], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Samples the missing programs of a model, and returns a line for each, with how it ended."""
    lines, policy, tokenizer = [], None, AutoTokenizer.from_pretrained(pretrained_tokenizer(name))
    form = "plan" if args.plan else "begun"
    with LocalExecutor(timeout_s=60, memory_mb=4096) as executor:
        reward = MLEReward(competitions, executor, AstInstrumenter())
        for competition in competitions:
            logs: dict[int, ProgramLog] = {}
            for limit in LIMITS:
                settings = {"model": name, "form": form, "max_tokens": limit, "limits": asdict(executor.limits)}
                logs[limit] = ProgramLog(
                    args.output / f"{name}-{form}-{limit}" / f"{competition.slug}.jsonl", settings
                )
                if sum(sample.evaluation is not None for sample in logs[limit].samples.values()) < args.num_samples:
                    policy = policy or load(name, args.endpoint)
                    writer = policy if limit == LIMITS[0] else CutOff(policy, tokenizer, logs[LIMITS[0]], competition)
                    limits, size = executor.limits, args.batch_size
                    harness = Harness(
                        writer,
                        competition,
                        reward,
                        logs[limit],
                        limit,
                        1024,
                        limits,
                        0,
                        size,
                        begin_program=not args.plan,
                    )
                    sample_programs(harness, args.num_samples)
                for sample in list(logs[limit].samples.values())[: args.num_samples]:
                    evaluation = sample.evaluation
                    if evaluation is None:  # a failure of our infrastructure
                        continue
                    kind = kind_of(evaluation, sample.completion.tokens >= limit)
                    found = {"reward": evaluation.reward, "milestones": len(evaluation.milestones), "kind": kind}
                    lines.append({"model": name, "form": form, "limit": limit, "competition": competition.id, **found})
    return lines


def load(name: str, endpoint: str | None) -> Policy:
    if endpoint is not None:
        return UnseededEndpoint(endpoint)
    return TransformersPolicy(str(pretrained(name)))


def shares(lines: Sequence[dict[str, Any]]) -> tuple[str, str, str, str]:
    """Valid programs, milestones, reward and kinds of failure of some programs, with 95% intervals."""
    kinds = Counter(line["kind"] for line in lines)
    valid = binomtest(kinds.pop("valid", 0), len(lines))
    low, high = valid.proportion_ci(method="wilson")
    milestones, reward = (interval([line[key] for line in lines]) for key in ("milestones", "reward"))
    return (
        f"{valid.statistic:.0%} ({low:.0%} to {high:.0%})",
        f"{milestones[0]:.1f} ± {milestones[1]:.1f}",
        f"{reward[0]:.2f} ± {reward[1]:.2f}",
        ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(4)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument("--models", nargs="+", default=["coder-0.5b"], choices=list(MODELS))
    parser.add_argument("--half", choices=["choose", "report"], help="every second competition (all)")
    parser.add_argument("--competitions", nargs="+", help="of these, some (all)")
    parser.add_argument(
        "--plan", action="store_true", help="prompts that ask for a plan, instead of beginning the program"
    )
    parser.add_argument("--endpoint", help="base URL of a server that samples, such as vLLM's")
    parser.add_argument("--num_samples", type=int, default=32)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-prompts"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.output = args.output.absolute()
    names = [name for name in list_competitions() if name.startswith("mirror:") or name in LOCAL]
    competitions = [*map(load_competition, names), *make_tables(args.output / "tables")]
    if args.half is not None:
        competitions = competitions[args.half == "report" :: 2]
    if args.competitions is not None:
        competitions = [
            item for item in competitions if item.id in args.competitions or item.slug in args.competitions
        ]
    console = PlainConsole()
    for name in args.models:
        lines = measure(name, competitions, args)
        for limit in LIMITS:
            table = Table(
                "competition",
                "valid",
                "milestones",
                "reward",
                "failures",
                title=f"{name}, {'a plan first' if args.plan else 'program begun'}, {limit} tokens",
            )
            these = [line for line in lines if line["limit"] == limit]
            for competition in competitions:
                table.add_row(
                    competition.id.rpartition("/")[2],
                    *shares([line for line in these if line["competition"] == competition.id]),
                )
            table.add_section()
            table.add_row("all", *shares(these))
            console.print(table)
        with (args.output / f"{name}-{'plan' if args.plan else 'begun'}.jsonl").open("w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
