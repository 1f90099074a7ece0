"""
Compares RL with and without improve prompts, at equal numbers of executed programs.

    python benchmarks/self_improvement.py --seeds 0 1 2

For each seed it builds a starter policy, half of whose corpus answers improve prompts, and trains it twice with the settings
of the quickstart: with `improve_probability=0` and with 0.5. Then each policy writes 64 programs from scratch and improves
each valid one, with a sampling seed that training never used. Training and the choice of the best see half of the hidden
rows, and scores are on the other half. A finished stage is not run again.
"""

import argparse
import json
import sys
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from quickstart import mean_sd, run_stages
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import load_competition


ARMS = {"scratch": 0.0, "improve": 0.5}  # improve_probability
POLICIES = ("starter", *ARMS)
LABELS = {"starter": "before RL", "scratch": "RL", "improve": "RL, improving"}
EVALUATION_COLUMNS = ("num_executed", "valid_rate", "mean_score", "best_score")
BEATEN = ("beats_parent_rate", "beats_parent_chance")  # by improvements; by programs from scratch of the same step
TRAINING_COLUMNS = (*EVALUATION_COLUMNS, *BEATEN)


def stages(seed: int, competition: str, num_samples: int, output: Path) -> dict[str, list[str]]:
    """The commands of one seed, by name."""
    python = sys.executable
    starter = str(output / "starter")
    reuse = [
        "--reuse_results",
        str(output.parent / "results.sqlite"),
    ]  # equal programs run once, for all arms and seeds
    commands = {
        "starter": [
            python, "-m", "trl_mle.starter", "--output_dir", starter, "--competitions", competition,
            "--improve_share", "0.5", "--seed", str(seed),
        ],
    }  # fmt: skip
    for arm, probability in ARMS.items():
        commands[arm] = [
            str(Path(python).with_name("accelerate")), "launch", "--config_file", "accelerate_configs/cpu.yaml",
            "recipes/train_mle.py", "--config", "recipes/quickstart.yaml", "--model_name_or_path", starter,
            "--output_dir", str(output / arm), "--competitions", competition, "--seed", str(seed),
            "--improve_probability", str(probability), "--num_generations", "16",  # four groups a step
            *reuse,
        ]  # fmt: skip
    commands["evaluation"] = [
        python, "recipes/evaluate_mle.py", "--policies", *(str(output / name) for name in POLICIES), "--names", *POLICIES,
        "--competitions", competition, "--output_dir", str(output / "evaluation"), "--num_samples", str(num_samples),
        "--improve", "true", "--seed", str(1_000_000 + seed), "--holdout", "0.5", "--program_timeout_s", "5", *reuse,
    ]  # fmt: skip
    return commands


def training_figures(policy: Path, higher_is_better: bool) -> dict[str, float]:
    """Figures of all programs executed in training, and how often an improvement beat its parent."""
    rows = [
        json.loads(line)
        for path in sorted((policy / "executions").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    valid = [row for row in rows if row["score"] is not None]
    if not valid:
        sys.exit(f"{policy}: none of the {len(rows)} programs executed in training was valid")
    history = json.loads((policy / "trainer_state.json").read_text())["log_history"]
    beats = {
        name: [entry[f"mle/improve/{name}"] for entry in history if f"mle/improve/{name}" in entry] for name in BEATEN
    }
    return {
        "num_executed": len(rows),
        "valid_rate": len(valid) / len(rows),
        "mean_score": fmean(row["held_out"] for row in valid),
        "best_score": (max if higher_is_better else min)(valid, key=itemgetter("score"))["held_out"],
    } | {name: fmean(values) for name, values in beats.items() if values}


def one_seed(seed: int, competition: str, num_samples: int, output: Path) -> dict:
    """Builds, trains and measures the policies of one seed."""
    measured = run_stages(stages(seed, competition, num_samples, output), output)
    higher_is_better = load_competition(competition).higher_is_better
    rows = json.loads((output / "evaluation" / "results.json").read_text())["rows"]
    return {
        "seed": seed,
        "stages": measured,
        "training": {arm: training_figures(output / arm, higher_is_better) for arm in ARMS},
        "evaluation": {row["policy"]: row for row in rows},
    }


def selections(policy: dict) -> dict[str, dict]:
    """The results of `recipes/evaluate_mle.py` for one policy: programs from scratch, and those kept of each pair."""
    kept = {row["chosen_by"]: row for row in policy["improvement"]["kept"]}
    executed = policy["improvement"]["num_executed"]
    return {"scratch": policy} | {by: row | {"num_executed": executed} for by, row in kept.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--competition", default="digits")
    parser.add_argument("--num_samples", type=int, default=64)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-self-improvement"))
    args = parser.parse_args()
    runs = [
        one_seed(seed, args.competition, args.num_samples, args.output / f"{args.competition}-{seed}")
        for seed in args.seeds
    ]
    (args.output / "results.json").write_text(json.dumps(runs, indent=2) + "\n")

    console = Console()
    seeds = f"{len(runs)} seeds (mean ± sd)"
    layout = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "title_justify": "left"}
    table = Table(title=f"{args.competition}: all programs executed in training, {seeds}", **layout)
    for name in ("policy", "executed", "valid rate", "mean score", "best score", "beats parent"):
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for arm in ARMS:
        found = [run_["training"][arm] for run_ in runs]
        table.add_row(LABELS[arm], *(column(found, key) for key in TRAINING_COLUMNS))
    console.print(table)

    table = Table(title=f"{args.competition}: {args.num_samples} samples of each policy, {seeds}", **layout)
    for name in ("policy", "kept by", "executed", "valid rate", "mean score", "best score"):
        table.add_column(name, justify="left" if name in ("policy", "kept by") else "right", no_wrap=True)
    for name in POLICIES:
        by_run = [selections(run_["evaluation"][name]) for run_ in runs]
        for selection in by_run[0]:
            found = [run_[selection] for run_ in by_run]
            label = "as written" if selection == "scratch" else selection
            table.add_row(LABELS[name], label, *(column(found, key) for key in EVALUATION_COLUMNS))
        table.add_section()
    console.print(table)
    for stage in runs[0]["stages"]:
        console.print(f"{stage:<9} {column([run_['stages'][stage] for run_ in runs], 'wall_s')} s", highlight=False)


def column(rows: list[dict], key: str) -> str:
    """The mean and deviation of a figure, over the rows that have it."""
    values = [row[key] for row in rows if row.get(key) is not None]
    digits = {"num_executed": 0, "wall_s": 0, "valid_rate": 2, **dict.fromkeys(BEATEN, 2)}.get(key, 3)
    return mean_sd(values, f"{{:.{digits}f}}") if values else "-"


if __name__ == "__main__":
    main()
