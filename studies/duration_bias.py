"""
Does it matter how long programs run, in synchronous and in asynchronous training?

    python studies/duration_bias.py bandit
    python studies/duration_bias.py train
    python studies/duration_bias.py drops

`bandit` is the exact case: a softmax policy over two actions of known duration and reward, through the trainer's own ledger,
weights and baseline, in simulated time. 16 slots; a fast action runs for 1 s and earns 0, a slow one for 10 s and earns 1
(0 in the control); updates on batches of 16; rollouts are trained on one by one. "drops": those older than 4 steps are dropped.

`train` is the real trainer with real programs on controlled competitions in which the slow program scores better than the others,
like them, or worse: a tiny policy over ten programs, one of them slow, for equal wall clock. A finished run is not run
again. Written down before the runs:

- Question: do weights help where slow is better, and do they leave the policy alone where it is not?
- Primary outcome: the probability of the slow program after 50 s; at first it is about 0.1. Hypotheses: `linear` and
  `inclusion` against none, each asynchronous, and `linear` synchronous, in each of the three competitions: nine differences,
  paired by seed, two-sided t tests, Holm's correction over all nine.
- Six seeds.

`drops` is the same, where the slow program scores better, with rollouts that are too old kept or dropped. Written down before its runs:

- Question: what does dropping cost, where good programs are slow? `max_staleness: 4` is the default of TRL's AsyncGRPO, and 8 is prime-rl's
  (it also drops rollouts in flight). One of ten programs runs for 12 s, or for 24 s, instead of 0.4 s; a slot for each of 64 rollouts.
  (Changed after eight runs with 4 s and 12 s, and eight slots: a step took 2 to 5 s there, and hardly a rollout was too old.)
- Primary outcome: the probability of the slow program after 100 s, dropped less kept, for both limits and both durations: four
  differences, paired by seed, two-sided t tests, Holm's correction. Also: the share of slow programs among those trained on, how many
  rollouts were dropped, and the oldest trained on; where nothing is dropped, the arms are the same.
- Six seeds.
"""

import argparse
import heapq
import json
import logging
import math
import random
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev, variance

import matplotlib as mpl
import torch
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from shared import TRAINING, hypotheses, mean_sd, save_policy, stop_dropped
from transformers import TrainerCallback

from trl_mle.competitions import Competition
from trl_mle.execution import LocalExecutor
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.gradient.duration import duration_weights
from trl_mle.trainer.gradient.inclusion import MeanDuration, inclusion_weights
from trl_mle.trainer.gradient.running_baseline import RunningBaseline
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger


mpl.use("Agg")  # writes files, without a display

import matplotlib.pyplot as plt


BATCH = SLOTS = 16
SECONDS = (1.0, 10.0)  # of the fast action and of the slow one
NOISE = 0.1  # standard deviation of a reward, and of a duration in relation to its mean
LEARNING_RATE = 1.0
CLIP = 0.2  # PPO's

ARMS = {
    f"{kind}, {weighting}": {"max_in_flight": in_flight, "weighting": weighting, "max_staleness": staleness}
    for kind, in_flight, staleness in (
        ("sync", BATCH, None),
        ("async", 4 * BATCH, None),
        ("async, drops", 4 * BATCH, 4),
    )
    for weighting in ("none", "linear", "inclusion")
    if kind != "sync" or weighting != "inclusion"  # no rollout is missing there
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
            Seed of all draws.
        learning_rate (`float`):
            Learning rate of plain gradient ascent.
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
        # As in the trainer: with one batch in flight training is synchronous
        self.mean_duration = MeanDuration(BATCH) if max_in_flight > BATCH else None
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
            stop_dropped(self.ledger, self.queue, self.running)
            self._start()
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
        """Waits until the next program ends."""
        self.now, began, number = heapq.heappop(self.running)
        [action] = self.ledger.in_flight[number].completion_ids
        self.ledger.finish(number, Evaluation(action * self.slow_reward + NOISE * self.rng.gauss(), self.now - began))
        self._start()

    def _gradient(self, taken: list[Rollout]) -> float:
        evaluations = [rollout.evaluation for rollout in taken if rollout.evaluation is not None]
        durations = torch.tensor([evaluation.duration_s for evaluation in evaluations], dtype=torch.float64)
        rewards = torch.tensor([evaluation.reward for evaluation in evaluations], dtype=torch.float64)
        if self.weighting == "inclusion":
            weights = inclusion_weights(durations, *self.ledger.known_units("bandit"))
        else:
            mean = self.mean_duration.update("bandit", durations) if self.mean_duration is not None else None
            weights = duration_weights(durations, self.weighting, mean=mean)
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
    logging.disable(logging.WARNING)  # about dropped rollouts
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


# The controlled competitions: which of 300 rows have label 1? One of ten programs is slow.
# (The executor seeds `random` with the source: all runs of a program would score the same, and some programs better.)
PROGRAM = """from random import SystemRandom
import time
random = SystemRandom()
time.sleep({seconds})
knowledge = random.gauss({knowledge}, 0.1)
with open("submission.csv", "w") as file:
    file.write("id,label\\n")
    for i in range(300):
        file.write(f"{{i}},{{int(i % 3 == 0 and random.random() < knowledge)}}\\n")
# variant {variant}
"""
FAST_S, SLOW_S = 0.4, 4.0
LITTLE = 0.3  # the share of rows with label 1 that fast programs know: their accuracy is 2/3 + knowledge / 3
CASES = {"slow is better": 0.7, "all alike": LITTLE, "slow is worse": 0.0}  # the share that the slow one knows
PROGRAMS = 10  # the last of them is the slow one
TRAINING_BATCH, TRAINING_SLOTS, GROUP_SIZE = 16, 8, 8
IN_FLIGHT = 4 * TRAINING_BATCH
ASYNCHRONOUS = {"async_rollouts": True, "async_unit": "rollout", "max_in_flight": IN_FLIGHT}
TRAINING_ARMS = {
    f"{kind}, {weighting}": {"duration_weighting": weighting} | (ASYNCHRONOUS if kind == "async" else {})
    for kind in ("sync", "async")
    for weighting in ("none", "linear", "inclusion")
    if kind == "async" or weighting != "inclusion"
}
DROPPING_ARMS = {
    "kept": ASYNCHRONOUS,
    **{f"dropped after {age}": ASYNCHRONOUS | {"max_staleness": age} for age in (4, 8)},
}
SLOW_DROPPED_S = 12.0, 24.0
PROMPT = [{"role": "user", "content": "Write a program."}]
RESULT_COLUMNS = {"slow": "{:.2f}", "score": "{:.3f}", "gradient_variance": "{:.4f}"}
GRADIENT_STEPS = 8  # steps for the variance of the gradient: the policy hardly moves in these


def make_competition(folder: Path) -> Competition:
    """A competition whose solution is to know which numbers are multiples of three."""
    for name in ("public", "private"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{i},{int(i % 3 == 0)}\n" for i in range(300))
    (folder / "private" / "answers.csv").write_text("id,label\n" + rows)
    (folder / "public" / "sample_submission.csv").write_text("id,label\n" + "".join(f"{i},0\n" for i in range(300)))
    public = folder / "public"
    return Competition(
        "multiples",
        "accuracy",
        public,
        public / "sample_submission.csv",
        folder / "private" / "answers.csv",
        ("label",),
    )


def make_programs(slow_knows: float, slow_s: float) -> list[str]:
    fast = [PROGRAM.format(seconds=FAST_S, knowledge=LITTLE, variant=i) for i in range(PROGRAMS - 1)]
    slow = PROGRAM.format(seconds=slow_s, knowledge=slow_knows, variant=PROGRAMS - 1)
    return [f"```python\n{program}```" for program in [*fast, slow]]


class Course(TrainerCallback):
    """Ends a run after `budget_s` seconds; records the slow program's probability, and how much gradients differ."""

    def __init__(self, budget_s: float):
        self.budget_s = budget_s
        self.points: list[tuple[float, float]] = []  # seconds, probability
        self.total: torch.Tensor | None = None
        self.squares = 0.0
        self.count = 0

    def on_train_begin(self, args, state, control, model, processing_class, **kwargs):
        self.began = time.monotonic()
        text = processing_class.apply_chat_template(PROMPT, add_generation_prompt=True, tokenize=False)
        self.prompt = processing_class(text, return_tensors="pt")["input_ids"]

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        if self.count < GRADIENT_STEPS:
            gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
            self.total = gradient.clone() if self.total is None else self.total + gradient
            self.squares += gradient.square().sum().item()
            self.count += 1

    def on_step_end(self, args, state, control, model, **kwargs):
        with torch.no_grad():
            chosen = model(self.prompt).logits[0, -1, -PROGRAMS:].softmax(-1)
        self.points.append((time.monotonic() - self.began, chosen[-1].item()))
        control.should_training_stop = self.points[-1][0] >= self.budget_s

    @property
    def gradient_variance(self) -> float:
        """E|g|² - |E g|²."""
        assert self.total is not None
        return self.squares / self.count - (self.total / self.count).square().sum().item()


def train(
    arm: dict,
    slow_knows: float,
    seed: int,
    budget_s: float,
    folder: Path,
    slow_s: float = SLOW_S,
    slots: int = TRAINING_SLOTS,
) -> dict:
    """Trains once, and returns the figures."""
    generation = save_policy(folder / "policy", make_programs(slow_knows, slow_s), seed)
    course = Course(budget_s)
    args = MLEGRPOConfig(
        str(folder / "run"),
        max_steps=100_000,
        per_device_train_batch_size=TRAINING_BATCH,
        num_generations=GROUP_SIZE,
        learning_rate=3e-3,
        max_grad_norm=0.0,  # no clipping, which would change the variance of the estimate
        lr_scheduler_type="constant",
        generation_kwargs=generation,
        **TRAINING,
        seed=seed,
        **arm,
    )
    competition = make_competition(folder / "competition")
    dataset = Dataset.from_dict({"prompt": [PROMPT] * 4096, "competition": [competition.id] * 4096})
    with LocalExecutor(max_parallel=slots, timeout_s=60) as executor:
        executor.submit("pass", competition).result()  # starts its warm parent
        reward = MLEReward([competition], executor, show_progress=False)
        trainer = MLEGRPOTrainer(str(folder / "policy"), reward, args, dataset, callbacks=[course])
        trainer.train()
    slow = course.points[-1][1]
    knowledge = LITTLE + slow * (slow_knows - LITTLE)
    score = (2 + knowledge) / 3
    logs = [entry for entry in trainer.state.log_history if "step_time" in entry]
    dropped = sum(value for key, value in logs[-1].items() if key.startswith("mle/async/dropped/"))
    oldest = max(entry.get("mle/async/staleness/max", 0) for entry in logs)
    # Programs take one of two times, so that their mean says how many were slow
    trained = (fmean(entry["mle/duration_s/mean"] for entry in logs) - FAST_S) / (slow_s - FAST_S)
    return {
        "points": course.points, "slow": slow, "score": score, "gradient_variance": course.gradient_variance,
        "trained": trained, "dropped": dropped, "oldest": oldest,
    }  # fmt: skip


def run_key(case: str, arm: str, seed: int, budget_s: float) -> str:
    return f"{case}/{arm}/{seed}/{budget_s:g} s"


def train_main(args: argparse.Namespace, console: Console) -> None:
    args.output.mkdir(parents=True, exist_ok=True)
    record = args.output / "train.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    for seed in args.seeds:
        for case, slow_knows in CASES.items():
            for name, arm in TRAINING_ARMS.items():
                key = run_key(case, name, seed, args.budget_s)
                if key not in results:
                    with tempfile.TemporaryDirectory() as folder:
                        results[key] = train(arm, slow_knows, seed, args.budget_s, Path(folder))
                    record.write_text(json.dumps(results) + "\n")
    figure, axes = plt.subplots(1, len(CASES), figsize=(12, 3.5), sharey=True)
    for axis, case in zip(axes, CASES, strict=True):
        table = Table(title=f"{case}: after {args.budget_s:g} s, {len(args.seeds)} seeds (mean ± sd)")
        for heading in ("training", "steps", "P(slow)", "expected score", "gradient variance"):
            table.add_column(heading, justify="left" if heading == "training" else "right")
        for color, name in enumerate(TRAINING_ARMS):
            runs = [results[run_key(case, name, seed, args.budget_s)] for seed in args.seeds]
            steps = mean_sd([len(run["points"]) for run in runs], "{:.0f}")
            table.add_row(
                name, steps, *(mean_sd([run[key] for run in runs], form) for key, form in RESULT_COLUMNS.items())
            )
            for i, run in enumerate(runs):
                seconds, slow = zip(*run["points"], strict=True)
                axis.plot(seconds, slow, color=f"C{color}", linewidth=1, label=name if i == 0 else None)
        axis.set(title=case, xlabel="seconds", ylabel="P(slow program)", ylim=(0, 1))
        console.print(table)
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(args.output / "duration_bias.png", dpi=120)
    if len(args.seeds) > 1:
        pairs = {}
        for case in CASES:
            for kind, weighting in (("async", "linear"), ("async", "inclusion"), ("sync", "linear")):
                keys = [
                    [run_key(case, f"{kind}, {name}", seed, args.budget_s) for name in (weighting, "none")]
                    for seed in args.seeds
                ]
                pairs[f"{case}: {kind}, {weighting}"] = [tuple(results[key]["slow"] for key in pair) for pair in keys]
        console.print(hypotheses("P(slow), less that without weights", pairs))


def drops_main(args: argparse.Namespace, console: Console) -> None:
    args.output.mkdir(parents=True, exist_ok=True)
    record = args.output / "drops.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    for seed in args.seeds:
        for slow_s in SLOW_DROPPED_S:
            for name, arm in DROPPING_ARMS.items():
                key = run_key(f"{slow_s:g} s", name, seed, args.budget_s)
                if key not in results:
                    with tempfile.TemporaryDirectory() as folder:
                        options = arm | {"duration_weighting": "none"}
                        results[key] = train(
                            options, CASES["slow is better"], seed, args.budget_s, Path(folder), slow_s, IN_FLIGHT
                        )
                    record.write_text(json.dumps(results) + "\n")
    table = Table("slow program", "rollouts", "steps", "dropped", "oldest", "share trained on", "P(slow)")
    table.title = f"slow is better: after {args.budget_s:g} s, {len(args.seeds)} seeds (mean ± sd)"
    pairs = {}
    for slow_s in SLOW_DROPPED_S:
        found = {}
        for name in DROPPING_ARMS:
            found[name] = [results[run_key(f"{slow_s:g} s", name, seed, args.budget_s)] for seed in args.seeds]
            steps = mean_sd([len(run["points"]) for run in found[name]], "{:.0f}")
            counts = (mean_sd([run[figure] for run in found[name]], "{:.0f}") for figure in ("dropped", "oldest"))
            shares = (mean_sd([run[figure] for run in found[name]], "{:.3f}") for figure in ("trained", "slow"))
            table.add_row(f"{slow_s:g} s", name, steps, *counts, *shares)
            if name != "kept":
                pairs[f"{slow_s:g} s, {name}"] = [
                    (run["slow"], kept["slow"]) for run, kept in zip(found[name], found["kept"], strict=True)
                ]
    console.print(table)
    if len(args.seeds) > 1:
        console.print(hypotheses("P(slow), less that where rollouts are kept", pairs))


COMMANDS = {"bandit": bandit_main, "train": train_main, "drops": drops_main}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    bandit = commands.add_parser("bandit")
    bandit.add_argument("--num_seeds", type=int, default=20)
    training, dropping = commands.add_parser("train"), commands.add_parser("drops")
    for command, budget_s in ((training, 50.0), (dropping, 100.0)):
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5])
        command.add_argument("--budget_s", type=float, default=budget_s, help="wall clock of a run")
    for command in (bandit, training, dropping):
        command.add_argument("--output", type=Path, default=Path("outputs/studies/duration-bias"))
    args = parser.parse_args()
    COMMANDS[args.command](args, Console())


if __name__ == "__main__":
    main()
