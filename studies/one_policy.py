"""
One policy for all twelve mirrors, or one for each: which finds better programs, at equal executed programs?

    python studies/one_policy.py

Written down before the first run:

- Question: does a policy that is trained on all mirrors in one run get as good on each as one that is trained on it alone, if both
  have executed as many programs for it?
- `max_at_k`, steps of 64 programs in one group. One policy: twelve times 24 steps, mirror after mirror at random, from a starter
  policy for all, which has learnt from 1,920 programs of each mirror (a third as many as the starter of one mirror, four times as
  many in all). One for each: the cells of `headline.py`, whose folder this shares.
- Primary outcome: the best of 128 programs, chosen by validation rows and scored on held-out ones, on the scale of the headline
  (the untrained best of 128 of the mirror's own starter is 0, the best solution known is 1). One policy less one for each, paired
  by mirror and seed: mean and 95% interval of a bootstrap over mirrors and seeds.
- Beside it: valid rates, and the same before training. 256 samples of each mirror, before and after training.
- One seed (two at first; one for the budget, decided while it trained, before its figures were known).

Run `headline.py` for these seeds before. Goes on where it was interrupted; takes some two hours for a seed on two
cores with `--max_parallel 2`, after 40 minutes for the starter and its samples.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from cells import BEFORE, Cell, Experiment, best_of, gains
from headline import ARMS, CHECKPOINTS, COMPETITIONS, TRAINING, best_known, strong_score
from rich.console import Console
from rich.table import Table
from shared import bootstrap, read

from trl_mle.execution import LocalExecutor


ONE, ONE_BEFORE = "one policy", "one policy, before RL"
EACH = "max_at_k"
STARTER_PROGRAMS, SAMPLES = 1920, 256
OPTIONS = {**ARMS[EACH], **CHECKPOINTS, "max_steps": len(COMPETITIONS) * TRAINING["max_steps"]}


def closed(lines: list[dict], best: float) -> dict[tuple[str, int], dict[str, float]]:
    """By arm and seed of one mirror, its valid rate and the share of the room that its best of 128 closes."""
    scores = {(line["arm"], line["seed"]): gains(line) for line in lines}
    static = scores[BEFORE, 0]
    worst = float(np.nanmin(static[:, 1]))
    start = best_of(128, static[:, 0], static[:, 1], worst)
    return {
        cell: {
            "valid": float(1 - np.isnan(found[:, 0]).mean()),
            "closed": float((best_of(128, found[:, 0], found[:, 1], worst) - start) / (best - start)),
        }
        for cell, found in scores.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--max_parallel", type=int, default=1, help="programs at a time")
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/headline"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with LocalExecutor(max_parallel=args.max_parallel, timeout_s=20, memory_mb=4096) as executor:
        experiment = Experiment(args.output, executor, TRAINING, STARTER_PROGRAMS)
        experiment.run(Cell(tuple(COMPETITIONS), ONE_BEFORE, 0), None, SAMPLES)
        for seed in args.seeds:
            experiment.run(Cell(tuple(COMPETITIONS), ONE, seed), OPTIONS, SAMPLES)
            print("seed", seed, flush=True)
        strong = {competition: strong_score(competition, executor) for competition in COMPETITIONS}
    known = read(experiment.lines)
    best = {competition: best_known(known, competition, strong[competition]) for competition in COMPETITIONS}
    found = {
        competition: closed([line for line in known if line["competition"] == competition], best[competition])
        for competition in COMPETITIONS
    }

    console = Console(width=80)
    table = Table(title=f"Share of the room above the untrained best of 128 that is closed; seeds: {len(args.seeds)}")
    for heading in ("mirror", "one, be-\nfore RL", "valid", "one\npolicy", "valid", "one for\neach", "valid"):
        left = heading == "mirror"
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for competition, cells in found.items():
        row = []
        for arm, seeds in ((ONE_BEFORE, [0]), (ONE, args.seeds), (EACH, args.seeds)):
            row += [f"{np.mean([cells[arm, seed]['closed'] for seed in seeds]):+.2f}"]
            row += [f"{np.mean([cells[arm, seed]['valid'] for seed in seeds]):.2f}"]
        table.add_row(competition.removeprefix("mirror:"), *row)
    console.print(table)
    difference = np.array(
        [[cells[ONE, seed]["closed"] - cells[EACH, seed]["closed"] for seed in args.seeds] for cells in found.values()]
    )
    mean, low, high = bootstrap(difference)
    console.print(f"one policy less one for each: {mean:+.3f} ({low:+.3f} to {high:+.3f})")
    of_all = {name: {str(cell): row for cell, row in cells.items()} for name, cells in found.items()}
    result = {"difference": [mean, low, high], "mirrors": of_all}
    (args.output / "one_policy.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
