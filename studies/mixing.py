"""
One policy for several mirrors: what keeps it from forgetting some of them?

    python studies/mixing.py
    python studies/mixing.py --seeds 0 --arms "one group" "four groups"

Written down before the first run:

- Question: in a run over several mirrors, at equal executed programs, does a step that mixes mirrors (four groups of 16 in place
  of one of 64), a quarter of the learning rate, or a KL term keep every mirror above its start?
- Six mirrors, chosen before anything was run: three that the run of `one_policy.py` lost (pizza, the playground of May 2022, plant
  pathology) and three that it kept (essays, leaf, spooky). `max_at_k` (k = 8), 72 steps of 64 programs: twelve steps' worth of
  programs for each. The order is a shuffled rotation in all arms.
- Arms: `one group` (of 64, in turns), `four groups` (of 16), each also with a quarter of the learning rate (`…, lr / 4`), and
  `four groups, beta = 0.1`.
- Primary outcome: over seeds, the number of mirrors whose valid rate on 128 samples is lower after training than before. Beside
  it: the valid rate of the worst mirror, mean valid rate, mean rank and best of 8 (ranks on held-out rows among the valid programs
  before training), by mirror.
- What is concluded: the simplest arm that ends with no mirror below its start, on both seeds, becomes the default of runs over
  several competitions; simpler is, in this order, four groups, a quarter of the rate, both, a KL term. If none does, the default
  stays, and docs/spending.md says so.
- Seeds: 2.

Continues where it was interrupted, and skips cells that are done. On one core, a cell takes 20 to 80 minutes after the starter.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean

import torch
from cells import BEFORE, Cell, Experiment, Known
from headline import TRAINING
from rich.console import Console
from rich.table import Table
from shared import read

from trl_mle.execution import LocalExecutor


COMPETITIONS = tuple(
    f"mirror:{name}"
    for name in (
        "random-acts-of-pizza",
        "tabular-playground-series-may-2022",
        "plant-pathology-2020-fgvc7",
        "learning-agency-lab-automated-essay-scoring-2",
        "leaf-classification",
        "spooky-author-identification",
    )
)
STARTER_PROGRAMS, SAMPLES = 1920, 128
COMMON = {"objective": "max_at_k", "max_steps": 72, "save_strategy": "steps", "save_steps": 4, "save_total_limit": 1}
SLOWER = {"learning_rate": TRAINING["learning_rate"] / 4}
ARMS: dict[str, dict] = {
    "one group": {},
    "four groups": {"num_generations": 16},
    "one group, lr / 4": SLOWER,
    "four groups, lr / 4": {"num_generations": 16, **SLOWER},
    "four groups, beta = 0.1": {"num_generations": 16, "beta": 0.1},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--max_parallel", type=int, default=1, help="programs at a time")
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/mixing"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with LocalExecutor(max_parallel=args.max_parallel, timeout_s=20, memory_mb=4096) as executor:
        experiment = Experiment(args.output, executor, TRAINING, STARTER_PROGRAMS)
        experiment.run(Cell(COMPETITIONS, BEFORE, 0), None, 2 * SAMPLES)
        for seed in args.seeds:
            for arm in args.arms:
                experiment.run(Cell(COMPETITIONS, arm, seed), {**COMMON, **ARMS[arm]}, SAMPLES)
                show(read(experiment.lines))


def show(lines: list[dict]) -> None:
    """Prints the figures of the cells that are done."""
    figures: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    for competition in COMPETITIONS:
        of_mirror = [line for line in lines if line["competition"] == competition]
        known = Known(of_mirror)
        for line in of_mirror:
            figures.setdefault((line["arm"], line["seed"]), {})[competition] = known.figures(line)
    # Without the cells that another process has begun
    figures = {cell: found for cell, found in figures.items() if len(found) == len(COMPETITIONS)}
    before = figures[BEFORE, 0]
    table = Table(title="Six mirrors, one policy: 72 steps of 64 programs")
    for name in ("arm", "seed", "mirrors below their start", "worst valid", "valid", "mean rank", "best of 8"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    of_mirrors = Table(title="Valid rate by mirror, means over seeds")
    of_mirrors.add_column("arm")
    for competition in COMPETITIONS:
        of_mirrors.add_column(competition.removeprefix("mirror:")[:14], justify="right")
    arms = dict.fromkeys(arm for arm, _ in figures)
    for arm in arms:
        seeds = [found for (name, _), found in figures.items() if name == arm]
        of_mirrors.add_row(arm, *(f"{fmean(found[name]['valid'] for found in seeds):.2f}" for name in COMPETITIONS))
    for (arm, seed), found in figures.items():
        below = sum(found[name]["valid"] < before[name]["valid"] for name in COMPETITIONS)
        means = [fmean(row[key] for row in found.values()) for key in ("valid", "mean_rank", "best_of_8")]
        worst = min(row["valid"] for row in found.values())
        table.add_row(arm, str(seed), str(below), *(f"{value:.2f}" for value in (worst, *means)))
    for one in (table, of_mirrors):
        Console(width=120).print(one)
    print(json.dumps({f"{arm}, seed {seed}": found for (arm, seed), found in figures.items()}))


if __name__ == "__main__":
    main()
