"""
Does it matter how long programs run, when training is synchronous and when it is not?

    python benchmarks/duration_bias.py bandit
    python benchmarks/duration_bias.py train --seeds 0 1 2

`bandit` is the exact case: a softmax policy over two actions of known duration and reward, through the trainer's own ledger,
weights and baseline, in simulated time. 16 slots; a fast action runs for 1 s and earns 0, a slow one for 10 s and earns 1
(0 in the control); updates on batches of 16; rollouts are trained on one by one.

`train` is the real trainer with real programs on a controlled competition in which slower programs score better, and on one in
which they do not: a tiny policy, for equal wall clock. A run whose results are there already is not run again.
"""

import argparse
import heapq
import json
import math
import random
import time
from pathlib import Path
from statistics import fmean, stdev, variance

import torch
from rich.console import Console
from rich.table import Table

from trl_mle.rewards import Evaluation
from trl_mle.trainer.duration import duration_weights, inclusion_probabilities
from trl_mle.trainer.rollout_ledger import Rollout, RolloutLedger
from trl_mle.trainer.running_baseline import RunningBaseline


BATCH = SLOTS = 16
SECONDS = (1.0, 10.0)  # of the fast action and of the slow one
NOISE = 0.1  # standard deviation of a reward, and of a duration in relation to its mean
LEARNING_RATE = 0.3
CLIP = 0.2  # PPO's

ARMS = {
    f"{kind}, {weighting}": {"max_in_flight": in_flight, "weighting": weighting, "max_staleness": staleness}
    for kind, in_flight, staleness in (
        ("synchronous", BATCH, None),
        ("asynchronous", 4 * BATCH, None),
        ("dropped after 4 steps", 4 * BATCH, 4),
    )
    for weighting in ("none", "linear", "inclusion")
    if kind != "synchronous" or weighting != "inclusion"  # nothing is missing there
}


class Bandit:
    """
    A policy over a fast and a slow action, and what it learns in simulated time.

    Args:
        start (`float`):
            Probability of the slow action before training.
        slow_reward (`float`):
            Mean reward of the slow action; that of the fast one is 0.
        seed (`int`):
            Of all draws.
        learning_rate (`float`):
            Of plain gradient ascent.
        max_in_flight, weighting, max_staleness:
            As in [`~trl_mle.trainer.MLEGRPOConfig`].
    """

    def __init__(
        self,
        start: float,
        slow_reward: float,
        seed: int,
        learning_rate: float,
        max_in_flight: int,
        weighting: str,
        max_staleness: int | None,
    ):
        self.logit = math.log(start / (1 - start))
        self.slow_reward = slow_reward
        self.learning_rate = learning_rate
        self.weighting = weighting
        self.ledger = RolloutLedger(max_in_flight, max_staleness=max_staleness)
        self.baseline = RunningBaseline()
        self.rng = random.Random(seed)
        self.now = 0.0
        self.running: list[tuple[float, float, int]] = []  # end, start, id: a heap
        self.queue: list[int] = []

    @property
    def slow(self) -> float:
        """The probability of the slow action."""
        return 1 / (1 + math.exp(-self.logit))

    def step(self) -> float:
        """Samples, waits for enough rollouts, and takes one step along the gradient, which it returns."""
        while self.ledger.has_room(BATCH):
            actions = [int(self.rng.random() < self.slow) for _ in range(BATCH)]
            added = self.ledger.add(
                Rollout({"competition": "bandit"}, [], [action], "", policy_logps=[self.logp(action)])
                for action in actions
            )
            self.queue += [rollout.id for rollout in added]
        self._start()
        while not (taken := self.ledger.take(BATCH)):
            self._wait()
        for _, began, number in self.running:
            self.ledger.observe(number, self.now - began)
        self.ledger.check([*self.queue, *(number for _, _, number in self.running)])
        gradient = self._gradient(taken)
        self.logit += self.learning_rate * gradient
        return gradient

    def logp(self, action: int) -> float:
        return math.log(self.slow if action else 1 - self.slow)

    def _start(self) -> None:
        while self.queue and len(self.running) < SLOTS:
            number = self.queue.pop(0)
            [action] = self.ledger.in_flight[number].completion_ids
            seconds = SECONDS[action] * math.exp(NOISE * self.rng.gauss())
            heapq.heappush(self.running, (self.now + seconds, self.now, number))

    def _wait(self) -> None:
        """Until the next program ends."""
        self.now, began, number = heapq.heappop(self.running)
        [action] = self.ledger.in_flight[number].completion_ids
        self.ledger.finish(number, Evaluation(action * self.slow_reward + NOISE * self.rng.gauss(), self.now - began))
        self._start()

    def _gradient(self, taken: list[Rollout]) -> float:
        evaluations = [rollout.evaluation for rollout in taken if rollout.evaluation is not None]
        durations = torch.tensor([evaluation.duration_s for evaluation in evaluations], dtype=torch.float64)
        rewards = torch.tensor([evaluation.reward for evaluation in evaluations], dtype=torch.float64)
        probabilities = None
        if self.weighting == "inclusion":
            probabilities = inclusion_probabilities(durations, *self.ledger.known_durations())
        weights = duration_weights(durations, self.weighting, probabilities=probabilities)
        advantages = weights * self.baseline.advantages(["bandit"] * BATCH, rewards, weights, scale=False)
        gradient = 0.0
        for rollout, advantage in zip(taken, advantages.tolist(), strict=True):
            [action] = rollout.completion_ids
            ratio = math.exp(self.logp(action) - (rollout.policy_logps or [math.nan])[0])
            clipped = ratio > 1 + CLIP if advantage > 0 else ratio < 1 - CLIP
            if not clipped:
                gradient += ratio * advantage * (action - self.slow) / BATCH
        return gradient


def learned(start: float, slow_reward: float, moments: list[float], seeds: int) -> dict[str, list[list[float]]]:
    """The probability of the slow action at some moments, in order, for each arm and seed."""
    found: dict[str, list[list[float]]] = {name: [] for name in ARMS}
    for name, options in ARMS.items():
        for seed in range(seeds):
            bandit = Bandit(start, slow_reward, seed, LEARNING_RATE, **options)
            slow, row = bandit.slow, []
            for moment in moments:
                while bandit.now < moment:
                    slow = bandit.slow
                    bandit.step()
                row.append(slow)
            found[name].append(row)
    return found


def gradients(start: float, until_s: float, seeds: int) -> dict[str, dict[str, float]]:
    """Mean and variance of the gradient of a policy that does not learn, over its first 30 s and from 100 s on."""
    found = {}
    for name, options in ARMS.items():
        early, late = [], []
        for seed in range(seeds):
            bandit = Bandit(start, 1.0, seed, 0.0, **options)
            while bandit.now < until_s:
                gradient = bandit.step()
                if bandit.now < 30:
                    early.append(gradient)
                elif bandit.now > 100:
                    late.append(gradient)
        found[name] = {
            "early_mean": fmean(early),
            "early_variance": variance(early),
            "late_mean": fmean(late),
            "late_variance": variance(late),
        }
    return found


def bandit_main(args: argparse.Namespace, console: Console) -> None:
    cases = {
        "start 0.5, after 30 s": (0.5, 1.0, [30.0]),
        "start 0.1, after 30 s and 400 s": (0.1, 1.0, [30.0, 400.0]),
        "control (no better), start 0.5, after 400 s": (0.5, 0.0, [400.0]),
    }
    began = time.monotonic()
    results = {name: learned(*case, args.num_seeds) for name, case in cases.items()}
    by_gradient = gradients(0.1, 200.0, args.num_seeds)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "bandit.json").write_text(json.dumps({"slow": results, "gradient": by_gradient}, indent=2) + "\n")

    table = Table(title=f"probability of the slow action, {args.num_seeds} seeds (mean ± sd)")
    for heading in ("training", "start 0.5\n30 s", "start 0.1\n30 s", "start 0.1\n400 s", "control\n400 s"):
        table.add_column(heading, justify="left" if heading == "training" else "right")
    for name in ARMS:
        columns = [list(moment) for rows in results.values() for moment in zip(*rows[name], strict=True)]
        table.add_row(name, *(f"{fmean(column):.2f} ± {stdev(column):.2f}" for column in columns))
    console.print(table)
    table = Table(title="gradient at probability 0.1, without learning; true 0.090")
    for heading in ("training", "mean\n< 30 s", "variance\n< 30 s", "mean\n> 100 s", "variance\n> 100 s"):
        table.add_column(heading, justify="left" if heading == "training" else "right")
    for name, row in by_gradient.items():
        table.add_row(name, *(f"{value:.4f}" for value in row.values()))
    console.print(table)
    console.print(f"{time.monotonic() - began:.0f} s", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    bandit = commands.add_parser("bandit")
    bandit.add_argument("--num_seeds", type=int, default=20)
    for command in (bandit,):
        command.add_argument("--output", type=Path, default=Path("outputs/benchmark-duration-bias"))
    args = parser.parse_args()
    bandit_main(args, Console())


if __name__ == "__main__":
    main()
