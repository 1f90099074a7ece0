"""
Compares objectives with a tiny policy: the real trainer, executed programs, held-out rows.

    mkdir -p outputs && cp -r benchmarks/results/benchmark-objectives-training outputs/    # earlier runs: prints their tables
    python benchmarks/objectives_training.py

Question: does an objective of two parts find better programs than the paper's reward, at a valid rate no lower? Primary
outcome: the share of near-best programs among those sampled from the trained policy, and their valid rate. A program is
near-best if it closes, on the rows that training saw, 95% of the gap between the median of the untrained policies' valid
programs and the best program that any policy has written. Also: the mean rank of valid programs among the untrained
policies' valid ones, and the best of 8 and of 128 programs, chosen on the rows that training saw and scored on those that it
did not, as such a rank, too. Arms are paired by competition and seed.

From one starter policy for each competition, every arm trains once for each seed, for 24 steps of 64 programs; then 256
programs are sampled. A finished cell is a line of `cells.jsonl`, and is not run again; equal programs of a cell run once.
Trials that did not help have left: docs/results.md, "Objectives".
"""

import argparse
import datetime
import hashlib
import json
import platform
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from paired import interval, read
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.harness import Harness, sample_programs
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward, ProgramLog
from trl_mle.showing import PlainConsole
from trl_mle.starter.build import StarterConfig, build_starter, sketch_corpus
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


HOLDOUT = 0.5
BEFORE = "before RL"  # the starter policy itself
COMPETITIONS = ["mirror:nomad2018-predict-transparent-conductors", "mirror:random-acts-of-pizza", "digits"]
ARMS: dict[str, dict[str, Any]] = {
    "reward, linear": {"duration_weighting": "linear", "duration_weight_low": 0.5, "duration_weight_high": 2.0},
    "reward": {"duration_weighting": "none"},
    "mean_rank": {"objective": "mean_rank"},
    "max_at_k": {"objective": "max_at_k"},
}
# All are part of a cell's setting, but for these two: cells of other machines, and of the time before an option, are the same
UNRECORDED = {
    "use_cpu": not torch.cuda.is_available(),
    "begin_program": False,  # the starter was taught to write a plan first
}
TRAINING = {
    "bf16": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "logging_steps": 1,
    "gradient_checkpointing": False,
    "per_device_train_batch_size": 64,
    "num_generations": 64,
    "max_prompt_length": 1024,
    "max_completion_length": 512,
    "improve_probability": 0.0,
    "learning_rate": 6.0e-4,
    "lr_scheduler_type": "constant",
}


def measure(name: str, arm: str, seed: int, executor: LocalExecutor, args: argparse.Namespace) -> dict[str, Any]:
    """The line of a policy; trains it and samples from it, if there is no line."""
    training = {} if arm == BEFORE else TRAINING | {"max_steps": args.steps} | ARMS[arm]
    programs = sketch_corpus(StarterConfig(competitions=[name], num_programs=20))["completion"]
    corpus = hashlib.sha256(json.dumps(list(programs)).encode()).hexdigest()[:8]  # identifies the grammar
    setting = {"training": training, "num_samples": args.samples, "corpus": corpus}
    lines = args.output / "cells.jsonl"
    for line in read(lines):
        if (line["competition"], line["arm"], line["seed"]) == (name, arm, seed):
            if line["setting"] != setting:
                raise SystemExit(f"error: {lines} has this cell with other settings: use another --output")
            return line

    competition = load_competition(name, holdout=HOLDOUT)
    starter = args.output / "starters" / f"{competition.slug}-{corpus}"
    if not (starter / "README.md").is_file():  # written last
        build_starter(StarterConfig(output_dir=str(starter), competitions=[name], num_programs=args.num_programs))
    folder = args.output / f"{competition.slug}-{seed}" / arm.replace(", ", "-").replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    reward = MLEReward(
        [competition], executor, AstInstrumenter(), show_progress=False, log_dir=folder, reuse_results=True
    )
    metrics = folder / "metrics.json"
    if arm != BEFORE and not metrics.is_file():
        config = MLEGRPOConfig(str(folder), seed=seed, **training, **UNRECORDED)
        trainer = MLEGRPOTrainer(str(starter), reward, config, competitions=[competition])
        trainer.train()
        trainer.save_model()
        metrics.write_text(json.dumps(trainer.state.log_history))
    steps = json.loads(metrics.read_text()) if arm != BEFORE else []
    policy = starter if arm == BEFORE else folder
    harness = Harness(
        policy=TransformersPolicy(str(policy)),
        competition=competition,
        reward=reward,
        log=ProgramLog(folder / "samples.jsonl", {"policy": policy.name, "seed": seed}),
        max_new_tokens=TRAINING["max_completion_length"],
        max_prompt_tokens=TRAINING["max_prompt_length"],
        begin_program=False,
        limits=executor.limits,
        seed=1_000_000 + seed,  # never used in training
    )
    samples = sample_programs(harness, args.samples)
    line = {
        "competition": name,
        "arm": arm,
        "seed": seed,
        "setting": setting,
        # Seconds of programs count for repeats, too, which did not run
        "cost": {
            "programs": sum(step.get("mle/programs", 0) for step in steps),
            "program_s": sum(step.get("mle/programs", 0) * step.get("mle/duration_s/mean", 0.0) for step in steps),
        },
        "scores": [[sample.score.value, sample.score.held_out] if sample.valid else None for sample in samples],
        "seconds": [None if sample.duration_s is None else round(sample.duration_s, 2) for sample in samples],
        "unique": len({sample.source for sample in samples}),
        "finished": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "machine": "cuda" if torch.cuda.is_available() else platform.machine(),
    }
    with lines.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line


def figures(lines: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The figures of all policies of a competition. Scores are ranks on held-out rows; the best is chosen on the others."""
    gain = load_competition(lines[0]["competition"], holdout=HOLDOUT).scoring.gain
    # Larger is better; of shape (samples, 2), NaN for invalid ones
    scores = [
        np.array([[np.nan] * 2 if pair is None else [gain(value) for value in pair] for pair in line["scores"]])
        for line in lines
    ]
    untrained = np.concatenate([found for line, found in zip(lines, scores, strict=True) if line["arm"] == BEFORE])
    untrained = untrained[~np.isnan(untrained[:, 0])]
    best = np.nanmax(np.concatenate(scores)[:, 0])
    near_best = best - 0.05 * (best - np.median(untrained[:, 0]))
    ordered = np.sort(untrained[:, 1])

    def rank(held_out: np.ndarray) -> np.ndarray:
        """The share of the untrained policies' valid programs that each score beats; ties count half."""
        left, right = (np.searchsorted(ordered, held_out, side) for side in ("left", "right"))
        return (left + right) / (2 * len(ordered))

    def best_of(k: int, found: np.ndarray) -> float:
        """The expected rank of the best of k programs; 0 if none is valid."""
        chosen_by = [None if np.isnan(score) else score for score in found[:, 0]]
        ranks = rank(found[:, 1]).tolist()
        [point] = best_of_k(chosen_by, [min(k, len(found))], True, reported=ranks, resamples=0)
        return 0.0 if point.score is None else point.valid_rate * point.score

    rows = []
    for line, found in zip(lines, scores, strict=True):
        valid = found[~np.isnan(found[:, 0])]
        rows.append(
            {
                "valid": len(valid) / len(found),
                "near_best": float((valid[:, 0] >= near_best).sum() / len(found)),
                "mean_rank": float(rank(valid[:, 1]).mean()) if len(valid) else 0.0,
                "best_of_8": best_of(8, found),
                "best_of_128": best_of(128, found),
                "unique": line["unique"] / len(found),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=COMPETITIONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS), help="less the first of them")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--num_programs", type=int, default=5760, help="that a starter learns from")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-objectives-training"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.output.mkdir(parents=True, exist_ok=True)
    lines = []
    with LocalExecutor(max_parallel=1, timeout_s=10, memory_mb=4096) as executor:
        for seed, competition, arm in product(args.seeds, args.competitions, [BEFORE, *args.arms]):
            lines.append(measure(competition, arm, seed, executor, args))
            valid = sum(map(bool, lines[-1]["scores"]))
            print(competition, seed, arm, f"{valid} of {args.samples} valid", flush=True)

    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in (BEFORE, *args.arms)}  # paired
    for competition in args.competitions:
        of_competition = [line for line in lines if line["competition"] == competition]
        for line, row in zip(of_competition, figures(of_competition), strict=True):
            found[line["arm"]].append(row)
    (args.output / "training.json").write_text(json.dumps(found, indent=2) + "\n")

    first, *others = args.arms
    title = f"{len(found[BEFORE])} runs of each arm: mean ± 95% interval; difference: less {first!r}, paired"
    names = list(found[BEFORE][0])
    table = Table("arm", *(name.replace("_", " ") for name in names), title=title)
    for arm, rows in found.items():
        table.add_row(arm, *("{:.2f} ± {:.2f}".format(*interval([row[name] for row in rows])) for name in names))
        if arm in others:
            pairs = [
                [row[name] - other[name] for row, other in zip(rows, found[first], strict=True)] for name in names
            ]
            table.add_row("  difference", *("{:+.2f} ± {:.2f}".format(*interval(pair)) for pair in pairs), style="dim")
    PlainConsole(width=120).print(table)


if __name__ == "__main__":
    main()
