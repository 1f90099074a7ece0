"""A bandit that shows what an objective and a duration weight pay for; see objectives.py."""

import gc
import heapq
import json
import logging
import math
from collections import deque
from itertools import product
from pathlib import Path

import numpy as np
import torch
from objectives_advantages import check, reward_advantages, two_part_advantages
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from shared import interval, stop_dropped

from trl_mle.rewards import Evaluation
from trl_mle.trainer.gradient.advantages import QUALITY_SCALE
from trl_mle.trainer.gradient.duration import duration_weights
from trl_mle.trainer.gradient.inclusion import MeanDuration, inclusion_weights
from trl_mle.trainer.rollouts import ledger
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger


ARMS = ("fail", "poor fast", "good fast", "good slow")
FAIL, FAST, SLOW = 0, 2, 3
START = (0.55, 0.15, 0.15, 0.15)  # probabilities before training
RARE = (0.9, 0.05, 0.025, 0.025)  # two of three groups have no slow program, and overtake those that have one
SECONDS = np.array([0.5, 2.0, 2.0, 30.0])
SECONDS_NOISE = 0.1  # standard deviation of a duration in relation to its median
FAIL_REWARD, MILESTONES = -10.0, 7  # a failure earns -10 and 0.1 for each of 0 to 7 milestones
VALID_PROGRESS = FAIL_REWARD + 3
POOR, GOOD, DIFFERENCE, SCORE_NOISE = 0.6, 0.8, 0.05, 0.03

CASES = {  # how much better good slow is than good fast, the noise of all scores, and the first policy
    "alike": (0.0, SCORE_NOISE, START),
    "alike, exact ties": (0.0, 0.0, START),
    "worse": (-DIFFERENCE, SCORE_NOISE, START),
    "better": (DIFFERENCE, SCORE_NOISE, START),
    "alike, valid rare": (0.0, SCORE_NOISE, RARE),
    "better, valid rare": (DIFFERENCE, SCORE_NOISE, RARE),
}
OBJECTIVES = ("reward", "mean_rank", "max_at_k")
WEIGHTS = ("none", "linear", "linear in [0.5, 2]", "inclusion")
MODES = {
    "sync": None,
    "async": {},
    "async, drops": {"max_staleness": 4},
    "async, unclipped": {"clip": math.inf},
}
SEEDS = dict.fromkeys(MODES, 20) | {"sync": 100}  # synchronous runs are cheap

GROUP, BATCH = 16, 128
SLOTS, MAX_IN_FLIGHT = BATCH, 4 * BATCH  # in asynchronous training
MAX_AT_K = 8
LEARNING_RATE = 0.2  # of plain gradient ascent
CLIP = 0.2  # PPO's
MOMENTS = (100, 400)  # updates
POOL = 1024  # durations from which a placebo is drawn
HISTORY = 4096  # rollouts that the ledger remembers, 32 steps: a slow one is in flight for fewer than 10


class Bandits:
    """
    Softmax policies over the four arms, one for each seed, and how they learn.

    Args:
        case, objective, weights (`str`):
            See `CASES`, `OBJECTIVES` and `WEIGHTS`.
        placebo (`bool`):
            Whether each duration is replaced by that of an earlier rollout with the same outcome: weights then have the
            same distribution, but depend neither on their own arm nor on the other arms of their batch.
        seeds (`list[int]`):
            One for each policy.
    """

    def __init__(self, case: str, objective: str, weights: str, placebo: bool, seeds: list[int]):
        self.slow_better, self.noise, start = CASES[case]
        self.objective, self.weights, self.placebo = objective, weights, placebo
        self.rng = np.random.default_rng([len(seeds), *seeds])
        self.logits = np.tile(np.log(start), (len(seeds), 1))
        self.pools = [(deque[float](maxlen=POOL), deque[float](maxlen=POOL)) for _ in seeds]  # by seed and outcome

    @property
    def policy(self) -> np.ndarray:
        """Probabilities, of shape `(seeds, 4)`."""
        odds = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def sample(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arms, seconds, and scores (rewards for failures), each of shape `(seeds, count)`."""
        below = self.policy.cumsum(axis=1)[:, None, :-1]
        arms = (self.rng.random((len(self.logits), count, 1)) > below).sum(axis=2)
        seconds = SECONDS[arms] * np.exp(SECONDS_NOISE * self.rng.standard_normal(arms.shape))
        means = np.array([0.0, POOR, GOOD, GOOD + self.slow_better])
        scores = means[arms] + self.noise * self.rng.standard_normal(arms.shape)
        failed = FAIL_REWARD + 0.1 * self.rng.integers(0, MILESTONES + 1, arms.shape)
        return arms, seconds, np.where(arms == FAIL, failed, scores)

    def advantages(self, arms: np.ndarray, scores: np.ndarray) -> torch.Tensor:
        """Unweighted advantages of whole groups, one after another, of shape `(B,)`."""
        rewards, failed = (torch.from_numpy(column).view(-1, GROUP) for column in (scores, arms == FAIL))
        if self.objective == "reward":
            return reward_advantages(rewards).flatten()
        progress = torch.where(failed, rewards, VALID_PROGRESS)
        quality = rewards.masked_fill(failed, torch.nan)
        k = MAX_AT_K if self.objective == "max_at_k" else None
        return two_part_advantages(progress, quality, k, QUALITY_SCALE).flatten()

    def durations(self, seed: int, arms: np.ndarray, seconds: np.ndarray) -> torch.Tensor:
        """The durations from which the weights of a batch are computed."""
        if not self.placebo:
            return torch.from_numpy(seconds)
        drawn = seconds.copy()
        for pool, members in zip(self.pools[seed], (arms == FAIL, arms != FAIL), strict=True):
            before = seconds[members] if not pool else np.array(pool)
            drawn[members] = self.rng.choice(before, members.sum()) if members.any() else 0.0
            pool.extend(seconds[members])
        return torch.from_numpy(drawn)

    def linear_weights(self, durations: torch.Tensor, mean: float | None = None) -> torch.Tensor:
        if self.weights == "none":
            return torch.ones_like(durations)
        low, high = (0.5, 2.0) if "[" in self.weights else (None, None)
        return duration_weights(durations, "linear", low, high, mean)


class Synchronous(Bandits):
    """Waits for all programs of a batch. All seeds take their steps together."""

    def step(self) -> None:
        arms, seconds, scores = self.sample(BATCH)
        advantages = self.advantages(arms.ravel(), scores.ravel()).view(-1, BATCH)
        weights = torch.stack(
            [
                self.linear_weights(self.durations(*of_seed))
                for of_seed in zip(range(len(arms)), arms, seconds, strict=True)
            ]
        )
        pushes = (weights * advantages).numpy()[:, :, None] * (np.eye(len(ARMS))[arms] - self.policy[:, None])
        self.logits += LEARNING_RATE * pushes.mean(axis=1)


class Asynchronous(Bandits):
    """One seed in simulated time: an update whenever eight groups are ready, through the trainer's own ledger."""

    def __init__(self, *args, max_staleness: int | None = None, clip: float = CLIP):
        super().__init__(*args)
        self.clip = clip
        self.ledger = RolloutLedger(MAX_IN_FLIGHT, GROUP, max_staleness)
        self.mean_duration = MeanDuration(BATCH)
        self.now = 0.0
        self.running: list[tuple[float, float, int]] = []  # end, start, id: a heap
        self.queue: list[int] = []  # ids, the next one last
        self.drawn: dict[int, tuple[int, float, float]] = {}  # arm, seconds, score by id

    def step(self) -> None:
        while self.ledger.has_room(BATCH):
            logps = np.log(self.policy[0]).tolist()
            drawn = list(zip(*(column[0].tolist() for column in self.sample(BATCH)), strict=True))
            row = {"competition": "bandit"}
            added = self.ledger.add(Rollout(row, [], [arm], "", policy_logps=[logps[arm]]) for arm, _, _ in drawn)
            self.drawn |= {rollout.id: of_rollout for rollout, of_rollout in zip(added, drawn, strict=True)}
            self.queue[:0] = [rollout.id for rollout in reversed(added)]
        self._start()
        while not (taken := self.ledger.take(BATCH)):
            stop_dropped(self.ledger, self.queue, self.running)
            self._start()
            self._wait()
        if self.weights == "inclusion":
            for _, began, number in self.running:
                self.ledger.observe(number, self.now - began)
        arms, seconds, scores = map(np.array, zip(*(self.drawn.pop(rollout.id) for rollout in taken), strict=True))
        durations = self.durations(0, arms, seconds)
        if self.weights == "inclusion":
            longest = self.ledger.longest_of_unit(durations)
            weights = inclusion_weights(longest, *self.ledger.known_units("bandit"))
        else:
            weights = self.linear_weights(durations, self.mean_duration.update("bandit", durations))
        advantages = (weights * self.advantages(arms, scores)).numpy()
        sampled_logps = np.array([rollout.policy_logps[0] for rollout in taken])
        ratios = np.exp(np.log(self.policy[0])[arms] - sampled_logps)
        ratios[np.where(advantages > 0, ratios > 1 + self.clip, ratios < 1 - self.clip)] = 0.0
        pushes = (ratios * advantages)[:, None] * (np.eye(len(ARMS))[arms] - self.policy)
        self.logits += LEARNING_RATE * pushes.mean(axis=0)

    def _start(self) -> None:
        while self.queue and len(self.running) < SLOTS:
            number = self.queue.pop()
            heapq.heappush(self.running, (self.now + self.drawn[number][1], self.now, number))

    def _wait(self) -> None:
        """Waits until the next program ends."""
        self.now, _, number = heapq.heappop(self.running)
        _, seconds, score = self.drawn[number]
        self.ledger.finish(number, Evaluation(score, seconds))
        self._start()


def learned(mode: str, bandit: tuple[str, str, str, bool], seeds: list[int]) -> dict[str, list[list[float]]]:
    """P(slow | good) and P(fail) of each seed at the moments."""
    options = MODES[mode]
    each = [Synchronous(*bandit, seeds)] if options is None else [Asynchronous(*bandit, [s], **options) for s in seeds]
    policies = []  # of all seeds, at the moments
    for moment, before in zip(MOMENTS, (0, *MOMENTS), strict=False):
        for bandits in each:
            for _ in range(moment - before):
                bandits.step()
        policies.append(np.concatenate([bandits.policy for bandits in each]))
    return {
        "slow": [(policy[:, SLOW] / (policy[:, SLOW] + policy[:, FAST])).tolist() for policy in policies],
        "fail": [policy[:, FAIL].tolist() for policy in policies],
    }


def cells() -> list[tuple[str, str, str, str, bool]]:
    """Mode, case, objective, weights and placebo, without those that show nothing new; the slowest come last."""
    found = product(MODES, CASES, OBJECTIVES, WEIGHTS, (False, True))
    return sorted((cell for cell in found if is_informative(*cell)), key=lambda cell: WEIGHTS.index(cell[3]))


def is_informative(mode: str, case: str, objective: str, weights: str, placebo: bool) -> bool:
    """Whether a cell shows what no other does."""
    if placebo:  # only where there are weights that it is a placebo of
        return case == "alike" and (
            (mode == "sync" and weights.startswith("linear")) or (mode, weights) == ("async", "linear")
        )
    if mode == "sync":
        return weights != "inclusion"  # no rollout is missing
    if mode == "async":
        if weights.startswith("linear"):  # if slow is better, favouring the slow shows nothing
            return case in ("alike", "worse")
        return weights == "none" or case != "alike, exact ties"
    if mode == "async, unclipped":  # does PPO's clipping of stale rollouts cause a drift?
        return weights == "none" and case in ("alike", "alike, valid rare")
    # If nearly every group has a slow program, all groups take equally long, and none is dropped
    return case == "alike, valid rare" and not weights.startswith("linear")


def bandit_main(folder: Path, console: Console) -> None:
    logging.disable(logging.WARNING)  # about dropped rollouts
    torch.set_num_threads(1)
    ledger.HISTORY = HISTORY
    gc.freeze()  # otherwise garbage collection takes half of the time
    check()
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "bandit.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    table = Table(title="P(slow | good), 0.50 at first, and P(fail); mean ± 95% interval", box=SIMPLE_HEAD)
    for heading in ("training (seeds)", "good slow is", "objective", "weights"):
        table.add_column(heading)
    for moment in MOMENTS:
        table.add_column(f"P(slow | good)\n{moment} updates", justify="right")
    for moment in MOMENTS:
        table.add_column(f"P(fail)\n{moment} updates", justify="right")
    for mode, case, objective, weights, placebo in cells():
        name = weights + ", placebo" * placebo
        key = "/".join((mode, case, objective, name, f"{SEEDS[mode]} seeds"))
        if key not in results:
            results[key] = learned(mode, (case, objective, weights, placebo), list(range(SEEDS[mode])))
            record.write_text(json.dumps(results) + "\n")
        columns = [*results[key]["slow"], *results[key]["fail"]]
        table.add_row(
            mode, case, objective, name, *("{:.2f} ± {:.2f}".format(*interval(column)) for column in columns)
        )
    console.print(table)
