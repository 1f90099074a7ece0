"""
Measures what is gained by choosing where programs are spent and where credit goes: a curriculum, replaced groups
without signal, credit up to the failed line.

    python studies/budget.py --seeds 0 1 2 3 4

Written down before the first run:

- Question: at equal seconds of executed programs, does one policy for four mirrors get better with `curriculum: learnability`,
  with `skip_zero_signal`, with `credit: failed_line`, or with all of them, than with none?
- The real trainer (`max_at_k`, steps of 64 programs in groups of 16, so that each of the four comes once a step if all
  come equally often), from one starter policy, until its programs, reused ones included, have taken `BUDGET_S` seconds.
  Then 128 programs are sampled for each mirror.
- Primary outcome: the expected best of 8 programs, chosen on the rows that training saw and scored on those that it did not, as
  the share of the untrained policy's valid programs that it beats (0 where none of the 8 is valid); the mean over the mirrors.
  Each arm against `uniform`: four differences, paired by seed, two-sided t tests, Holm's correction.
- Also: the valid rate, the mean rank of valid programs, near-best and distinct programs, and how many programs were
  executed.
- Five seeds. What does not help stays off.

Equal programs run once for all arms; their store is next to the cells. Continues where it was interrupted; finished
cells are lines of `cells.jsonl`.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from statistics import fmean

import torch
from cells import BEFORE, Cell, Experiment, Known
from objectives_training import TRAINING
from rich.console import Console
from rich.table import Table
from shared import hypotheses, interval

from trl_mle.execution import LocalExecutor


COMPETITIONS = (
    "mirror:nomad2018-predict-transparent-conductors",
    "mirror:random-acts-of-pizza",
    "mirror:detecting-insults-in-social-commentary",
    "mirror:tabular-playground-series-may-2022",
)
UNIFORM = "uniform"
ARMS: dict[str, dict] = {
    UNIFORM: {},
    "learnability": {"curriculum": "learnability"},
    "skip_zero_signal": {"skip_zero_signal": 4},
    "failed_line": {"credit": "failed_line"},
    "all three": {"curriculum": "learnability", "skip_zero_signal": 4, "credit": "failed_line"},
}
BUDGET_S = 240.0
SAMPLES = 128
SETTING = TRAINING | {
    "objective": "max_at_k",
    "num_generations": 16,
    "max_steps": 100,  # the budget ends training earlier
    "budget_s": BUDGET_S,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/budget"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with LocalExecutor(max_parallel=1, timeout_s=10, memory_mb=4096) as executor:
        experiment = Experiment(args.output, executor, SETTING)
        lines = experiment.run(Cell(COMPETITIONS, BEFORE, 0), None, 4 * SAMPLES)
        for seed, arm in product(args.seeds, args.arms):
            lines += (found := experiment.run(Cell(COMPETITIONS, arm, seed), ARMS[arm], SAMPLES))
            valid = sum(sum(map(bool, line["scores"])) for line in found)
            print(f"seed {seed}, {arm}: {valid} of {len(found) * SAMPLES} valid", flush=True)

    known = {name: Known([line for line in lines if line["competition"] == name]) for name in COMPETITIONS}
    figures = {
        (line["arm"], line["seed"], line["competition"]): known[line["competition"]].figures(line)
        | {"programs": line["cost"].get("programs", 0.0), "program_s": line["cost"].get("program_s", 0.0)}
        for line in lines
    }
    names = list(next(iter(figures.values())))
    means = {
        arm: [
            {name: fmean(figures[arm, seed, competition][name] for competition in COMPETITIONS) for name in names}
            for seed in ([0] if arm == BEFORE else args.seeds)
        ]
        for arm in (BEFORE, *args.arms)
    }
    (args.output / "budget.json").write_text(json.dumps(means, indent=2) + "\n")

    console = Console(width=120)
    table = Table(
        title=f"{len(args.seeds)} seeds, {BUDGET_S:g} s of programs, means over {len(COMPETITIONS)} mirrors ± 95% interval"
    )
    for heading in ("arm", *(name.replace("_", " ") for name in names)):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    for arm, rows in means.items():
        table.add_row(arm, *("{:.3g} ± {:.2g}".format(*interval([row[name] for row in rows])) for name in names))
    console.print(table)
    if UNIFORM in args.arms and len(args.seeds) > 1:
        base = [row["best_of_8"] for row in means[UNIFORM]]
        pairs = {
            f"{arm} - {UNIFORM}": list(zip([row["best_of_8"] for row in means[arm]], base, strict=True))
            for arm in args.arms
            if arm != UNIFORM
        }
        console.print(hypotheses("best of 8, as a rank", pairs))


if __name__ == "__main__":
    main()
