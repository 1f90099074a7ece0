"""
Measures partial credit, where a quarter of the programs is valid at first, and where hardly any is.

    python studies/partial_credit.py

Written down before the first run:

- Question: does credit for milestones help a policy to write valid programs, most of all one that hardly ever does?
- The real trainer with the paper's reward, without weights by Δt, on digits: 24 steps of 64 programs in one group, from two
  starters, one that slips as usual and one that slips so often that about one program in 10,000 is valid (`SLIP_RATES`).
- Arms: milestones (0.1 each, as in the paper); none; shuffled, where each failed program of a step gets the reward of another
  failed one, so that credit is as large and as varied, and says nothing.
- Primary outcome: steps until half of the programs of a step are valid, 25 where that does not happen. Milestones against
  none and against shuffled, from both starters: four differences, paired by seed, two-sided t tests, Holm's correction.
- Also: how many runs ever write a valid program; the valid rate of the last six steps.
- Six seeds. A finished run is a line of `runs.jsonl`, and is not run again.

Measured: 7 of the 11,520 programs that the runs without credit sampled until their first valid one were valid, not one in 10,000.

Follow-up, written down after these runs: from the starter that is hardly ever valid, milestones led to programs that load the data
and go no further, within 24 steps. Do three times as many steps suffice?

    python studies/partial_credit.py --steps 72 --starts "hardly ever valid" --arms milestones none --seeds 6 7 8 9

The same outcomes, with 73 for a run in which half of the programs are never valid; milestones against none, on four seeds that were
not used before.
"""

import argparse
import json
import random
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from objectives_training import TRAINING
from rich.console import Console
from rich.table import Table
from shared import hypotheses, interval, read

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.solutions.store import ResultStore
from trl_mle.starter.build import StarterConfig, build_starter
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


COMPETITION, HOLDOUT = "digits", 0.5
SLIP_RATES = {"often valid": 0.06, "hardly ever valid": 0.37}
ARMS = ("milestones", "none", "shuffled")


class Shuffled(MLEReward):
    """Shuffles the rewards of failed programs."""

    rng: random.Random

    def __call__(self, *args: Any, **kwargs: Any) -> list[float | None]:
        rewards = super().__call__(*args, **kwargs)
        failed = [i for i, reward in enumerate(rewards) if reward is not None and reward < self.floor]
        others = [rewards[i] for i in failed]
        self.rng.shuffle(others)
        for i, reward in zip(failed, others, strict=True):
            rewards[i] = reward
        return rewards


def train(
    start: Path, arm: str, seed: int, steps: int, executor: LocalExecutor, store: ResultStore, folder: Path
) -> list[float]:
    """The valid rate of each step."""
    competition = load_competition(COMPETITION, holdout=HOLDOUT)
    reward = (Shuffled if arm == "shuffled" else MLEReward)(
        [competition],
        executor,
        None if arm == "none" else AstInstrumenter(),
        show_progress=False,
        results=store,
    )
    if isinstance(reward, Shuffled):
        reward.rng = random.Random(seed)
    config = TRAINING | {"max_steps": steps, "objective": "reward", "duration_weighting": "none"}
    args = MLEGRPOConfig(str(folder), seed=seed, **config)
    trainer = MLEGRPOTrainer(str(start), reward, args, competitions=[competition])
    trainer.train()
    return [entry["mle/valid_rate"] for entry in trainer.state.log_history if "mle/valid_rate" in entry]


def steps_until_half(rates: list[float]) -> int:
    return next((step for step, rate in enumerate(rates, 1) if rate >= 0.5), len(rates) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--starts", nargs="+", choices=list(SLIP_RATES), default=list(SLIP_RATES))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/partial-credit"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.output.mkdir(parents=True, exist_ok=True)
    lines = args.output / "runs.jsonl"
    store = ResultStore(args.output / "results.sqlite")
    runs = {
        (line["start"], line["arm"], line["seed"]): line["valid"]
        for line in read(lines)
        if len(line["valid"]) == args.steps
    }
    with LocalExecutor(max_parallel=1, timeout_s=10, memory_mb=4096) as executor:
        for seed, name, arm in product(args.seeds, args.starts, args.arms):
            if (name, arm, seed) in runs:
                continue
            start = args.output / "starters" / f"slips-{SLIP_RATES[name]}"
            if not (start / "README.md").is_file():  # written last
                slips = SLIP_RATES[name]
                build_starter(StarterConfig(output_dir=str(start), competitions=[COMPETITION], slip_rate=slips))
            folder = args.output / f"{name}-{arm}-{seed}".replace(" ", "-")
            rates = train(start, arm, seed, args.steps, executor, store, folder)
            runs[name, arm, seed] = rates
            with lines.open("a") as file:
                file.write(json.dumps({"start": name, "arm": arm, "seed": seed, "valid": rates}) + "\n")
            print(seed, name, arm, f"half valid after {steps_until_half(rates)} steps", flush=True)

    console = Console()
    table = Table("start", "milestones", "steps until half", "ever valid", "valid, last six steps")
    for name, arm in product(args.starts, args.arms):
        found = [runs[name, arm, seed] for seed in args.seeds]
        steps = "{:.1f} ± {:.1f}".format(*interval([float(steps_until_half(rates)) for rates in found]))
        last = "{:.2f} ± {:.2f}".format(*interval([fmean(rates[-6:]) for rates in found]))
        table.add_row(name, arm, steps, f"{sum(any(rates) for rates in found)} of {len(found)}", last)
    console.print(table)
    others = [arm for arm in args.arms if arm != "milestones"]
    if len(args.seeds) > 1 and "milestones" in args.arms and others:
        pairs = {
            f"{name}: milestones less {other}": [
                (
                    float(steps_until_half(runs[name, "milestones", seed])),
                    float(steps_until_half(runs[name, other, seed])),
                )
                for seed in args.seeds
            ]
            for name, other in product(args.starts, others)
        }
        console.print(hypotheses("steps until half of the programs are valid", pairs))


if __name__ == "__main__":
    main()
