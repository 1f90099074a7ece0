"""
Before a model is trained: which credit, which comparison and which order of ideas find better programs, in a simulation?

    python benchmarks/simulated.py                                       # a minute
    python benchmarks/simulated.py --alternatives 32 --coupling 2        # "hard": failures alone teach little

A policy chooses among 2,083 programs of a grammar, which were executed once for 14 competitions (`results/benchmark-simulated/programs.jsonl`; drawn
and scored by `studies/objectives_study.py` in commit 2f34a2d), by a log-linear model of their choices, and may make a mistake at each of 16 places,
with one of `--alternatives` wrong tokens; how likely depends on the place and on the program's choices, by `--coupling`. An idea is an estimator.

Written down before the runs (2026-11-29):

- Questions: Where groups are asked for ideas, does it help to compare quality with all different scores of the run, or over the step, instead of
  within the group? To let copies share credit? To choose half of the ideas among those whose programs scored best, or to drop those without a valid one?
- 24 steps of 16 programs (ideas: two groups of 8, k = 4; else one group, k = 8), 64 afterwards; learning rate 0.2; 14 competitions, 5 seeds.
- Outcome: rank of the best of all 448 programs among the competition's different scores, less that of asking with the same ideas; means over seeds,
  95% interval over competitions. An arm that is not better than `max_at_k` in both worlds is not tried on a model.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from credit import Shared
from paired import interval, read
from rich.table import Table

from trl_mle.showing import PlainConsole
from trl_mle.trainer.advantages import QUALITY_SCALE, VALID_STEP, group_advantages, standardized
from trl_mle.trainer.gradient.objectives import Group


STORE = Path(__file__).parent / "results" / "benchmark-simulated" / "programs.jsonl"
PLACES, STEPS, STEP, AFTER, RATE = 16, 24, 16, 64, 0.2
SHARPER = 2.5  # power of the grammar's probabilities: a language model's programs are more alike
ARMS = {
    "max_at_k": {"ideas": False},
    "shared": {"ideas": False},
    "run": {"ideas": False},
    "ideas, max_at_k": {},
    "ideas, shared": {},
    "ideas, run": {},  # quality is the rank among the different scores of the run
    "ideas, step": {},  # quality is compared over the step
    "ideas, best": {"best": 0.5},
    "ideas, dropped": {"drops": True},
}


class Programs:
    """The executed programs of a competition, as a policy sees them."""

    def __init__(self, rows: list[dict], valid_at_first: float):
        names = sorted({name for row in rows for name in row["choices"]})
        self.features = np.array([[float(name in row["choices"]) for name in names] for row in rows])
        gains = np.array([np.nan if row["gain"] is None else row["gain"] for row in rows])
        self.valid = ~np.isnan(gains)
        different = np.unique(gains[self.valid])
        self.rank = np.where(self.valid, np.searchsorted(different, gains) / (len(different) - 1), np.nan)
        self.order = np.argsort(np.where(self.valid, gains, -np.inf), kind="stable")[-self.valid.sum() :]
        drawn = np.array([row["drawn"] for row in rows]) ** SHARPER
        self.prior = drawn / drawn.sum()
        self.right = (valid_at_first / self.prior[self.valid].sum()) ** (1 / PLACES)
        by_estimator = defaultdict(list)
        for index, row in enumerate(rows):
            by_estimator[row["choices"][0]].append(index)
        self.ideas = [np.array(by_estimator[name]) for name in sorted(by_estimator)]

    def best(self, counts: list[tuple[np.ndarray, np.ndarray, float]], least: float) -> float:
        """The expected rank of the best program of many: of each of (programs, their probabilities, draws), and `least`."""
        none_better = np.ones(len(self.order) + 1)
        for members, probabilities, draws in counts:
            each = np.zeros(len(self.prior))
            each[members] = probabilities
            of_valid = each[self.order]
            none_better *= (1 - of_valid.sum() + np.concatenate([[0], of_valid.cumsum()])).clip(0, 1) ** draws
        ranks = np.maximum(np.concatenate([[0.0], self.rank[self.order]]), least)
        return float(np.diff(np.concatenate([[0], none_better])) @ ranks)


class Adam:
    def __init__(self, *weights: np.ndarray):
        self.weights, self.step = weights, 0
        self.means, self.squares = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]

    def ascend(self, *gradients: np.ndarray) -> None:
        self.step += 1
        for weight, mean, square, gradient in zip(self.weights, self.means, self.squares, gradients, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            weight += RATE * mean / (1 - 0.9**self.step) / (np.sqrt(square / (1 - 0.999**self.step)) + 1e-8)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def advantages(arm: str, quality: np.ndarray, programs: np.ndarray, seen: list[float]) -> np.ndarray:
    """The advantages of a group."""
    progress, scores = torch.from_numpy(~np.isnan(quality)).double(), torch.from_numpy(quality)
    k = len(quality) // 2
    if arm.endswith("shared"):
        group = Group(rewards=progress, progress=progress, quality=scores, program=torch.from_numpy(programs))
        return Shared(SimpleNamespace(max_at_k=k)).advantages(group).numpy()
    if arm.endswith("run"):
        different = np.unique([*seen, *quality[~np.isnan(quality)]])
        ranks = (np.searchsorted(different, quality) + 0.5) / max(1, len(different))
        part = np.where(np.isnan(quality), 0.0, QUALITY_SCALE * ranks)
        return standardized(progress, VALID_STEP).numpy() + part - part.mean()
    return group_advantages(progress, scores, k, torch.from_numpy(programs)).numpy()


def simulate(programs: Programs, arm: str, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """What a run finds."""
    rng, settings, features = np.random.default_rng(seed), ARMS[arm], programs.features
    ideas = programs.ideas if settings.get("ideas", True) else [np.arange(len(programs.prior))]
    size = STEP // 2 if len(ideas) > 1 else STEP
    choices, places = np.zeros(features.shape[1]), np.zeros((PLACES, 1 + args.alternatives))
    places[:, 0] = math.log(programs.right / (1 - programs.right) * args.alternatives)
    coupled = np.zeros((*places.shape, features.shape[1]))
    coupling, optimizer = args.coupling / math.sqrt(features.sum(1).mean()), Adam(choices, places, coupled)

    def chosen(members: np.ndarray) -> np.ndarray:
        return softmax(np.log(programs.prior[members]) + features[members] @ choices)

    def tokens(members: np.ndarray) -> np.ndarray:  # (programs, places, tokens); the first token is right
        return softmax(places + coupling * np.einsum("ptf,nf->npt", coupled, features[members]))

    def counts(draws: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
        return [(idea, chosen(idea) * tokens(idea)[:, :, 0].prod(1), draws / len(ideas)) for idea in ideas]

    asked = programs.best(counts(STEPS * STEP + AFTER), 0.0)
    seen: list[float] = []
    tried, bests, turns = np.zeros(len(ideas)), np.full(len(ideas), -1.0), list[int]()
    for _ in range(STEPS):
        gradients, groups = [np.zeros_like(weight) for weight in optimizer.weights], []
        for _ in range(STEP // size):
            if not turns:
                turns = [
                    i
                    for i in rng.permutation(len(ideas))
                    if not (settings.get("drops") and tried[i] > 2 and bests[i] < 0)
                ]
            if bests.max() >= 0 and rng.random() < settings.get("best", 0.0):
                which = rng.choice([i for i in np.argsort(-bests)[:3] if bests[i] >= 0])
            else:
                which = turns.pop()
            members, policy = ideas[which], chosen(ideas[which])
            drawn = members[rng.choice(len(members), size, p=policy)]
            written = tokens(drawn)
            token = (written.cumsum(2) < rng.random((size, PLACES, 1))).sum(2).clip(max=args.alternatives)
            quality = np.where((token == 0).all(1), programs.rank[drawn], np.nan)
            groups.append((members, policy, drawn, written, token, quality))
            tried[which] += 1
            bests[which] = max(bests[which], *np.nan_to_num(quality, nan=-1.0))
        qualities = [group[-1] for group in groups]
        pushes = [advantages(arm, group[-1], group[2], seen) for group in groups]
        if arm.endswith("step"):
            over = advantages(arm, np.concatenate(qualities), np.concatenate([group[2] for group in groups]), seen)
            every = standardized(torch.from_numpy(~np.isnan(np.concatenate(qualities))).double(), VALID_STEP).numpy()
            each = [
                standardized(torch.from_numpy(~np.isnan(values)).double(), VALID_STEP).numpy() for values in qualities
            ]
            pushes = [own + part for own, part in zip(each, np.split(over - every, len(groups)), strict=True)]
        for (members, policy, drawn, written, token, _), push in zip(groups, pushes, strict=True):
            gradients[0] += push / STEP @ (features[drawn] - policy @ features[members])
            of_tokens = push[:, None, None] / STEP * (np.eye(1 + args.alternatives)[token] - written)
            gradients[1] += of_tokens.sum(0)
            gradients[2] += coupling * np.einsum("npt,nf->ptf", of_tokens, features[drawn])
        optimizer.ascend(*gradients)
        seen += [value for values in qualities for value in values if not np.isnan(value)]
    found = {"best": programs.best(counts(AFTER), max(seen, default=0.0)), "asked": asked}
    found["valid"] = sum((each[programs.valid[idea]]).sum() for idea, each, _ in counts(1)) / len(ideas)
    return found | {"best of 8": programs.best(counts(8), 0.0), "scores": len(set(seen))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alternatives", type=int, default=8)
    parser.add_argument("--coupling", type=float, default=1.0)
    parser.add_argument(
        "--valid", type=float, nargs="+", default=[0.05, 0.13, 0.4], help="share of valid programs at first"
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--competitions", type=int, default=14, help="the first ones")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-simulated"))
    args = parser.parse_args()
    by_competition = defaultdict(list)
    for row in read(STORE):
        by_competition[row["competition"]].append(row)
    args.output.mkdir(parents=True, exist_ok=True)
    for valid in args.valid:
        figures = "best", "valid", "best of 8", "scores"
        table = Table("arm", "asked", *figures, "less asked", title=f"valid at first: {valid}")
        for arm in args.arms:
            found = []
            for rows in list(by_competition.values())[: args.competitions]:
                programs = Programs(rows, valid)
                runs = [simulate(programs, arm, seed, args) for seed in range(args.seeds)]
                found.append({name: float(np.mean([run[name] for run in runs])) for name in runs[0]})
            less = "{:+.3f} ± {:.3f}".format(*interval([run["best"] - run["asked"] for run in found]))
            table.add_row(arm, *(f"{np.mean([run[name] for run in found]):.3g}" for name in ("asked", *figures)), less)
            with (args.output / "runs.jsonl").open("a") as file:
                file.write(
                    json.dumps({"valid": valid, "arm": arm, "alternatives": args.alternatives, "runs": found}) + "\n"
                )
        PlainConsole(width=100).print(table)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
