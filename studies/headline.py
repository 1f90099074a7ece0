"""
The headline: does training find programs that sampling the untrained policy ten times as often does not?

    python studies/headline.py --seeds 0
    python studies/headline.py --seeds 0 1

On each of the twelve mirrors, from one starter policy, two arms: the paper's objective (`reward` with `linear` weights) and
`max_at_k`. Written down before the first run:

- Primary outcome: the best of 128 programs after training against the expected best of 1,280 of the untrained policy, chosen by
  validation rows and scored on held-out ones; on how many of the mirrors it is better (mean over seeds), and by how much on the
  scale where the untrained best of 128 is 0 and the best solution known is 1 (mean, and 95% interval of a bootstrap over mirrors
  and seeds).
- Also: the same against the untrained best of 128; the same chosen by the held-out rows themselves (the paper's way); valid
  rates; programs and seconds that training cost.
- Added after seed 1 of nine mirrors: the same cells by rank on held-out rows among the untrained policy's valid programs (mean,
  best of 8 and of 128), and the share of distinct samples.
- Room: P(the untrained best of 1,280 reaches the best solution known); who wrote that one; how long the best 1% of the valid
  programs take, compared with all valid ones.
- Static figures are U-statistics from 5,120 samples, those after training from 512.
- The best solution known is the best on held-out rows of what the untrained policy and those of the two arms wrote, with any
  seed, and of the strong solution in tests/competitions/mirrors/solutions. (Until the follow-up's first cells were known: of any
  policy. The same for the finished runs.)
- Seeds: 2, the second after the first on all mirrors.

Follow-up, written down after seed 0 of the first five mirrors: `max_at_k` was better than the untrained best of 1,280 on two of
them, and on the other three (insults, leaf, phrase matching) its mean score still rose in the last step. Do four times as many
steps suffice, with k = 8 or 32? `--arms "max_at_k, 96 steps" "max_at_k, k = 32, 96 steps"` runs on these three with seed 0;
the arm that closes more of the gap there (mean, chosen by validation) then runs on all twelve with seed 1. Primary outcome as
above. Before any of it ran, it was cut to its first stage for the budget: the second one takes some ten hours of a core. With
the arms of the headline beside it: `--arms "reward, linear" max_at_k "max_at_k, 96 steps" "max_at_k, k = 32, 96 steps"`.

Its end, written down before it runs: k = 32 with 96 steps on the other nine mirrors, too, with seed 0 (`--arms max_at_k
"max_at_k, k = 32, 96 steps"`). Primary outcome as above, on all twelve: it meets the goal if it is better than the untrained
best of 1,280 on more than half of them. The starters are built again, on another CPU; what is known of the untrained policies
stays, and 512 samples of each new starter are compared with it (`--arms "the starter, built again"`).

Equal programs run once. Continues where it was interrupted. On one core a mirror takes some 50 minutes for the first
seed (starter 6, static samples 22, each arm 11: 24 steps of 64 programs and its samples), measured on two mirrors with
objectives_training.py. On a machine with a GPU and many cores, run cells in parallel: one process for each competition
(`--competitions`), then one without, which collects the results.
"""

import argparse
import json
import math
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
import numpy as np
import torch
from cells import BEFORE, HOLDOUT, Cell, Experiment, Known, best_of, gains
from matplotlib import pyplot
from rich.console import Console
from rich.table import Table
from shared import bootstrap, read

from trl_mle.competitions import load_competition
from trl_mle.competitions.mirrors import MIRRORS
from trl_mle.execution import LocalExecutor


matplotlib.use("Agg")
ROOT = Path(__file__).parents[1]
STRONG = ROOT / "tests" / "competitions" / "mirrors" / "solutions"
COMPETITIONS = [f"mirror:{name}" for name in MIRRORS]
STATIC_SAMPLES, SAMPLES = 5120, 512
CHECKPOINTS = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 1}  # of long runs
ARMS: dict[str, dict | None] = {
    "reward, linear": {"duration_weighting": "linear", "duration_weight_low": 0.5, "duration_weight_high": 2.0},
    "max_at_k": {"objective": "max_at_k"},
    "max_at_k, 96 steps": {"objective": "max_at_k", "max_steps": 96, **CHECKPOINTS},
    "max_at_k, k = 32, 96 steps": {"objective": "max_at_k", "max_at_k": 32, "max_steps": 96, **CHECKPOINTS},
    "the starter, built again": None,
}
HEADLINE = ("reward, linear", "max_at_k")
TRAINING = {
    "use_cpu": not torch.cuda.is_available(),
    "bf16": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "logging_steps": 1,
    "gradient_checkpointing": False,
    "per_device_train_batch_size": 64,
    "num_generations": 64,
    "max_prompt_length": 1024,
    "begin_program": False,  # the starter was taught to write a plan first
    "max_completion_length": 768,
    "improve_probability": 0.0,
    "learning_rate": 6.0e-4,
    "lr_scheduler_type": "constant",
    "max_steps": 24,
}


def strong_score(competition: str, executor: LocalExecutor) -> float:
    """The strong solution's score on held-out rows, larger is better."""
    comp = load_competition(competition, holdout=HOLDOUT)
    source = (STRONG / competition.removeprefix("mirror:") / "strong.py").read_text()
    [result] = executor.run_many([(source, comp)])
    if result.submission is None:
        raise RuntimeError(f"the strong solution of {competition} has failed: {result.outcome}, {result.detail}")
    score = comp.grade(result.submission)
    return comp.scoring.gain(score.held_out)


def best_known(lines: list[dict], competition: str, strong: float) -> float:
    """The score of a mirror's best solution known on held-out rows, larger is better."""
    of_scale = (line for line in lines if line["competition"] == competition and line["arm"] in (BEFORE, *HEADLINE))
    return max(strong, *(np.nanmax(gains(line)[:, 1]) for line in of_scale))


def figures(lines: list[dict], best: float) -> dict[str, dict[str, Any]]:
    """
    By arm of one mirror: for each seed, best of 128 less the untrained best of 128 and of 1,280, relative to the room there is;
    figures by rank among the untrained policy's valid programs; means of the valid rate and the cost.
    """
    scores = {(line["arm"], line["seed"]): gains(line) for line in lines}
    static = np.concatenate([of_policy for (arm, _), of_policy in scores.items() if arm == BEFORE])
    worst = float(np.nanmin(static[:, 1]))  # the score of a policy without a valid program
    found: dict[str, dict[str, Any]] = {}
    for choice, column in (("validation", 0), ("test", 1)):
        static_128, static_1280 = (best_of(k, static[:, column], static[:, 1], worst) for k in (128, 1280))
        room = best - static_128
        for arm in dict.fromkeys(arm for arm, _ in scores):
            of_arm = [of_policy for (name, _), of_policy in scores.items() if name == arm]
            best_128 = np.array([best_of(128, of_seed[:, column], of_seed[:, 1], worst) for of_seed in of_arm])
            row = found.setdefault(arm, {})
            row["valid"] = float(np.mean([1 - np.isnan(of_seed[:, 0]).mean() for of_seed in of_arm]))
            row[f"closed, by {choice}"] = ((best_128 - static_128) / room).tolist()
            row[f"less 1,280, by {choice}"] = ((best_128 - static_1280) / room).tolist()
    known = Known(lines)
    for arm, row in found.items():
        of_arm = [line for line in lines if line["arm"] == arm]
        row["ranks"] = [known.figures(line) for line in of_arm]
        if arm != BEFORE:
            row |= {name: fmean(line["cost"].get(name, 0) for line in of_arm) for name in ("programs", "program_s")}
    return found


def room(lines: list[dict], strong: float, best: float) -> dict[str, Any]:
    """How much better than the untrained policy's programs the best solution known is, on held-out rows."""
    [line] = [line for line in lines if line["arm"] == BEFORE]
    static = gains(line)[:, 1]
    reached = int((static >= best).sum())
    seconds = np.array([np.nan if second is None else second for second in line["seconds"]])
    order = np.argsort(-static)[: np.count_nonzero(~np.isnan(static))]  # valid ones, best first
    return {
        "P": 1 - math.comb(len(static) - reached, 1280) / math.comb(len(static), 1280),
        "best by": "the untrained policy" if reached else "strong.py" if strong == best else "a trained policy",
        "seconds": float(np.median(seconds[order])),
        "seconds of the best": float(np.median(seconds[order[: math.ceil(len(order) / 100)]])),
    }


def draw(found: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """The share of the room that each arm closes, a line for each mirror and a point for each seed."""
    figure, axis = pyplot.subplots(figsize=(9, 5), layout="constrained")
    arms = [arm for arm in next(iter(found.values())) if arm != BEFORE]
    least = -1.5  # what is further left is drawn here
    for y, by_arm in enumerate(found.values()):
        static_1280 = -by_arm[BEFORE]["less 1,280, by validation"][0]
        axis.plot([static_1280] * 2, [y - 0.3, y + 0.3], color="black", label=None if y else "untrained best of 1,280")
        for color, arm in enumerate(arms):
            closed = by_arm[arm]["closed, by validation"]
            height = y + 0.4 * (2 * color - len(arms) + 1) / len(arms)
            axis.scatter(
                np.maximum(closed, least),
                [height] * len(closed),
                color=f"C{color}",
                label=None if y else arm,
                zorder=2,
            )
            if min(closed) < least:
                axis.annotate(f"← {min(closed):.1f}", (least + 0.05, height), va="center", color=f"C{color}")
    axis.set_yticks(range(len(found)), [competition.removeprefix("mirror:") for competition in found])
    axis.invert_yaxis()
    axis.axvline(0, color="gray", linewidth=0.8)
    axis.axvline(1, color="gray", linewidth=0.8, linestyle="dashed")
    axis.set_xlabel("best of 128: 0 as good as the untrained policy's, 1 as the best solution known")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=COMPETITIONS, choices=COMPETITIONS)
    parser.add_argument("--arms", nargs="+", default=HEADLINE, choices=ARMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--max_parallel", type=int, default=1, help="programs at a time")
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/headline"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with LocalExecutor(max_parallel=args.max_parallel, timeout_s=20, memory_mb=4096) as executor:
        experiment = Experiment(args.output, executor, TRAINING)
        lines = {
            competition: experiment.run(Cell((competition,), BEFORE, 0), None, STATIC_SAMPLES)
            for competition in args.competitions
        }
        for seed, competition, arm in product(args.seeds, args.competitions, args.arms):
            [line] = experiment.run(Cell((competition,), arm, seed), ARMS[arm], SAMPLES)
            lines[competition].append(line)
            print(competition, seed, arm, f"{sum(map(bool, line['scores']))} of {SAMPLES} valid", flush=True)
        strong = {competition: strong_score(competition, executor) for competition in args.competitions}
    known = read(experiment.lines)
    best = {competition: best_known(known, competition, strong[competition]) for competition in args.competitions}
    found = {competition: figures(lines[competition], best[competition]) for competition in args.competitions}
    (args.output / "headline.json").write_text(json.dumps(found, indent=2) + "\n")

    draw(found, args.output / "headline.svg")

    console = Console(width=80)
    table = Table(title="Room: does the untrained best of 1,280 reach the best solution known?")
    for heading in ("mirror", "P", "best by", "valid,\nseconds", "best 1%,\nseconds"):
        table.add_column(heading, justify="left" if heading in ("mirror", "best by") else "right", overflow="fold")
    for competition in args.competitions:
        row = room(lines[competition], strong[competition], best[competition])
        seconds = (f"{row[name]:.2f}" for name in ("seconds", "seconds of the best"))
        table.add_row(competition.removeprefix("mirror:"), f"{row['P']:.2f}", row["best by"], *seconds)
    console.print(table)
    for choice in ("validation", "test"):
        table = Table(title=f"Best of 128 chosen by {choice}: share of the room above the untrained one")
        for heading in ("mirror", "arm", "valid", "closed", "less\n1,280", "programs", "seconds"):
            left = heading in ("mirror", "arm")
            table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
        for competition, by_arm in found.items():
            for arm, row in by_arm.items():
                costs = (f"{row.get(name, 0):,.0f}" for name in ("programs", "program_s"))
                shares = (f"{fmean(row[f'{name}, by {choice}']):+.2f}" for name in ("closed", "less 1,280"))
                name = competition.removeprefix("mirror:") if arm == BEFORE else ""
                table.add_row(name, arm, f"{row['valid']:.2f}", *shares, *costs, end_section=arm == list(by_arm)[-1])
        console.print(table)
        for arm in args.arms:
            rows = [by_arm[arm] for by_arm in found.values()]
            better = sum(fmean(row[f"less 1,280, by {choice}"]) > 0 for row in rows)
            closed = np.array([row[f"closed, by {choice}"] for row in rows])  # (mirrors, seeds)
            console.print(
                f"{arm}: beats the untrained best of 1,280 on {better} of {len(rows)}; closes "
                "{:.2f} ({:.2f} to {:.2f})".format(*bootstrap(closed))
                + f" of the gap, median {np.median(closed.mean(axis=1)):.2f}"
            )
    table = Table(
        title="As ranks among the untrained policy's valid programs, means over mirrors and\nseeds, 95% interval below"
    )
    for heading in ("arm", "valid", "distinct", "mean rank", "best of 8", "best of 128"):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    for arm in (BEFORE, *args.arms):
        cells = []
        for name in ("valid", "unique", "mean_rank", "best_of_8", "best_of_128"):
            values = np.array([[ranks[name] for ranks in by_arm[arm]["ranks"]] for by_arm in found.values()])
            cells.append("{:.2f}\n{:.2f}–{:.2f}".format(*bootstrap(values)))
        table.add_row(arm, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
