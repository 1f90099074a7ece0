r"""
Ablation: the full method, without each part, and without all parts, at equal numbers of programs.

    python benchmarks/ablation.py --competitions diabetes --seeds 0 1 2

For each competition and seed it builds a starter policy that can improve programs, trains it once for each arm with the
settings of a recipe, and samples programs of all arms, with a sampling seed that training never used. Training and the
choice of the best see half of the hidden rows, and scores are on the other half. Then it writes `results.md` and
`results.csv` (mean ± standard error over seeds) and, for each competition, the overlaid report. Options that are not listed
here are passed to `recipes/train_mle.py`. A finished stage is not run again: after an interruption, the same command
continues with the interrupted arm. Equal programs run once, for all arms and seeds (`reuse_results`), so the seconds
of a stage say little about its arm. On a GPU, pass a model and a recipe:
`--model Qwen/Qwen2.5-3B-Instruct --recipe recipes/qwen2.5-3b-instruct/leaf-classification.yaml --accelerate_config
accelerate_configs/zero3.yaml` (not run yet).

A small run, with 192 programs per arm, from the starters of `benchmarks/self_improvement.py --competition diabetes`:

    python benchmarks/ablation.py --competitions diabetes --seeds 0 1 2 --max_steps 6 --per_device_train_batch_size 32 \
        --num_samples 32 --starter 'outputs/benchmark-self-improvement/{competition}-{seed}/starter'
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from quickstart import run_stages

from trl_mle.competitions import CompetitionError, load_competition


# The paper's method, with bounded weights: a program that dies at once has almost no Δt, so almost no penalty otherwise
PARTS = {
    "duration weights": (
        ["--duration_weighting", "linear", "--duration_weight_low", "0.5", "--duration_weight_high", "2"],
        ["--duration_weighting", "none"],
    ),
    "partial credit": ([], ["--milestone_reward", "0"]),
    "improve prompts": (["--improve_probability", "0.5"], ["--improve_probability", "0"]),
}


def method_without(left_out: Collection[str]) -> list[str]:
    """Options for the method without some of its parts."""
    return [
        "--objective",
        "reward",
        *(item for part, (on, off) in PARTS.items() for item in (off if part in left_out else on)),
    ]


ARMS = {
    "full method": method_without([]),
    **{f"without {part}": method_without([part]) for part in PARTS},
    "without all three": method_without(PARTS),
}
TRL_MLE = [sys.executable, "-m", "trl_mle.cli"]


def stages(args: argparse.Namespace, competition: str, seed: int, output: Path) -> dict[str, list[str]]:
    """The commands of one competition and seed, by name."""
    commands = {}
    reuse = ["--reuse_results", str(args.output / "results.sqlite")]
    options = [*reuse, *args.training]
    if args.max_steps is not None:
        options = ["--max_steps", str(args.max_steps), "--save_steps", str(args.max_steps), *options]
    if args.model is not None:
        model = args.model
    elif args.starter is not None:
        model = args.starter.format(competition=load_competition(competition).slug, seed=seed)
    else:
        model = str(output / "starter")
        commands["starter"] = [
            sys.executable, "-m", "trl_mle.starter", "--output_dir", model, "--competitions", competition,
            "--improve_share", "0.5", "--num_programs", str(args.num_programs), "--seed", str(seed),
        ]  # fmt: skip
    for arm in args.arms:
        commands[folder_of(arm)] = [
            str(Path(sys.executable).with_name("accelerate")), "launch", "--config_file", args.accelerate_config,
            "recipes/train_mle.py", "--config", args.recipe, "--model_name_or_path", model,
            "--output_dir", str(output / folder_of(arm)), "--competitions", competition, "--holdout", "0.5", "--seed", str(seed),
            *(["--num_generations", "16"] if args.model is None else []),  # enough groups for both kinds of prompt
            *ARMS[arm], *options,
        ]  # fmt: skip
    commands["evaluation"] = [
        *TRL_MLE, "evaluate", "--policies", model, *(str(output / folder_of(arm)) for arm in args.arms),
        "--names", "before RL", *args.arms, "--competitions", competition, "--output_dir", str(output / "evaluation"),
        "--num_samples", str(args.num_samples), "--seed", str(1_000_000 + seed), "--holdout", "0.5",
        "--program_timeout_s", str(args.timeout_s), *reuse,
    ]  # fmt: skip
    return commands


def folder_of(arm: str) -> str:
    return arm.replace(" ", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=["diabetes"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--arms",
        nargs="+",
        default=list(ARMS),
        choices=list(ARMS),
        help="with the full method alone: before and after RL",
    )
    parser.add_argument("--model", help="the policy to start from; default: a starter for each competition and seed")
    parser.add_argument("--starter", help="path of existing starters, with {competition} and {seed}")
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--accelerate_config", default="accelerate_configs/cpu.yaml")
    parser.add_argument("--max_steps", type=int, help="training steps; default: the recipe's")
    parser.add_argument("--num_programs", type=int, default=5760, help="programs in a starter's corpus")
    parser.add_argument("--num_samples", type=int, default=64, help="programs sampled from each policy at the end")
    parser.add_argument("--timeout_s", type=float, default=5.0, help="timeout of these programs")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-ablation"))
    args, args.training = parser.parse_known_args()
    for path in (args.recipe, args.accelerate_config):
        if not Path(path).is_file():
            parser.error(f"there is no file {path}")

    seconds = {}
    runs = [(competition, seed) for competition in args.competitions for seed in args.seeds]
    try:
        folders = {run: args.output / f"{load_competition(run[0]).slug}-{run[1]}" for run in runs}
    except CompetitionError as error:
        parser.error(str(error))
    for (competition, seed), output in folders.items():
        measured = run_stages(stages(args, competition, seed, output), output)
        seconds |= {f"{output.name}/{name}": figures["wall_s"] for name, figures in measured.items()}
    (args.output / "seconds.json").write_text(json.dumps(seconds, indent=2) + "\n")

    evaluations = [str(folder / "evaluation") for folder in folders.values()]
    tables = [f"--markdown={args.output / 'results.md'}", f"--csv={args.output / 'results.csv'}"]
    subprocess.run([*TRL_MLE, "compare", *evaluations, *tables], check=True)
    for competition in args.competitions:
        named = [(folders[competition, seed] / folder_of(arm), arm) for arm in args.arms for seed in args.seeds]
        subprocess.run(
            [
                *TRL_MLE, "report", *(str(folder) for folder, _ in named), "--names", *(arm for _, arm in named),
                "--report_dir", str(args.output / f"report-{load_competition(competition).slug}"),
            ],
            check=True,
        )  # fmt: skip
    print(f"{sum(seconds.values()) / 60:.0f} minutes in all, see {args.output / 'seconds.json'}")


if __name__ == "__main__":
    main()
