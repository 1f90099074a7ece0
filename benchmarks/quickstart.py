"""
The quickstart for several seeds: how much RL improves the starter policy, and what that costs.

    python benchmarks/quickstart.py --competitions digits --seeds 0 1 2

For each competition and seed it builds a starter policy, trains it, and samples 128 fresh programs from it before and
after (with a sampling seed that training never used). The mean scores of valid programs are compared at equal numbers of
valid programs: the first n of each, n being the smaller count. Training and the choice of the best see half of the hidden
rows, and scores are on the other half. A finished stage is not run again; an interrupted one starts again.
Options that are not listed here are passed to `recipes/train_mle.py`. `results.md` has the tables.
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import fmean, stdev

import psutil
import yaml
from paired import evaluations
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.showing import PlainConsole


STAGES = ("starter", "policy", "evaluation")  # and their folders


def run(command: list[str]) -> tuple[float, float]:
    """Runs a command; returns its wall clock in seconds, and the peak memory of its process tree in MB (proportional
    set size, so that pages shared by forked programs count once; sampled every second)."""
    peak = 0.0
    done = threading.Event()
    started = time.monotonic()
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command])  # must not outlive this process

    def watch() -> None:
        nonlocal peak
        while not done.wait(1.0):
            total = 0
            try:
                for member in (root := psutil.Process(process.pid), *root.children(recursive=True)):
                    try:
                        total += member.memory_full_info().pss
                    except psutil.Error:
                        continue  # it ended meanwhile
            except psutil.Error:
                continue
            peak = max(peak, total / 2**20)

    threading.Thread(target=watch, daemon=True).start()
    try:
        code = process.wait()
    finally:
        done.set()
    if code != 0:
        sys.exit(f"{' '.join(command)} ended with exit code {code}")
    return time.monotonic() - started, peak


def run_stages(commands: dict[str, list[str]], output: Path) -> dict[str, dict[str, float]]:
    """
    Runs commands, each of which creates the folder of its name, except those that ran before with the same arguments and
    the same YAML files, from folders that have not changed since. Returns the wall clock of each in seconds, and its peak
    memory in MB. A folder that was made with other settings is kept as `<name>.old`.
    """
    output.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, float]] = {}
    renewed: set[str] = set()
    for name, command in commands.items():
        folder, record = output / name, output / f"{name}.json"
        files = {word: yaml.safe_load(Path(word).read_text()) for word in command if word.endswith(".yaml")}
        settings = {"command": command, "files": files}
        known = json.loads(record.read_text()) if record.exists() else {}
        if renewed & set(command) or not settings.items() <= known.items():
            renewed.add(str(folder))
            if record.exists():
                old = folder.with_name(f"{name}.old")
                shutil.rmtree(old, ignore_errors=True)
                folder.rename(old)
                record.unlink()
                print(f"{folder} was made with other settings: it is kept as {old.name}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted run
            seconds, memory_mb = run(command)
            figures = settings | {"wall_s": seconds, "peak_memory_mb": memory_mb}
            record.write_text(json.dumps(figures) + "\n")
        measured[name] = json.loads(record.read_text())
    return measured


def one_seed(seed: int, competition: str, output: Path, args: argparse.Namespace, training: list[str]) -> dict:
    """Builds, trains and measures one policy."""
    python = sys.executable
    starter, policy, evaluation = (str(output / name) for name in STAGES)
    commands = {
        "starter": [python, "-m", "trl_mle.starter", "--output_dir", starter, "--competitions", competition, "--seed", str(seed), "--num_programs", str(args.num_programs)],
        "policy": [
            str(Path(python).with_name("accelerate")), "launch", "--config_file", "accelerate_configs/cpu.yaml",
            "recipes/train_mle.py", "--config", "recipes/quickstart.yaml", "--model_name_or_path", starter,
            "--output_dir", policy, "--competitions", competition, "--seed", str(seed), *training,
        ],
        "evaluation": [
            python, "recipes/evaluate_mle.py", "--policies", starter, policy, "--names", "before", "after",
            "--competitions", competition, "--output_dir", evaluation, "--num_samples", str(args.num_samples),
            "--seed", str(1_000_000 + seed), "--begin_program", "false", "--holdout", "0.5", "--program_timeout_s", "5", "--max_completion_length", "256",
        ],
    }  # fmt: skip
    measured: dict = {"competition": competition, "seed": seed}
    measured |= run_stages(commands, output)
    rows = json.loads((Path(evaluation) / "results.json").read_text())["rows"]
    figures = {row["policy"]: row for row in rows}
    scores = {}
    for name in ("before", "after"):
        rows = evaluations(Path(evaluation) / f"{name}.jsonl")
        scores[name] = [row["score"]["held_out"] for row in rows if row["score"] and row["score"]["valid"]]
    count = min(map(len, scores.values()))
    for name in ("before", "after"):
        mean = fmean(scores[name][:count]) if count else None
        measured[name] = figures[name] | {"mean_score_equal_n": mean, "equal_n": count}
    return measured


def mean_sd(values: list[float], form: str = "{:.3f}") -> str:
    deviation = f" ± {form.format(stdev(values))}" if len(values) > 1 else ""
    return form.format(fmean(values)) + deviation


def show(competition: str, num_samples: int, runs: list[dict]) -> None:
    table = Table(title=f"{competition}: {num_samples} sampled programs, {len(runs)} seeds (mean ± sd)")
    for column in ("", "before RL", "after RL"):
        table.add_column(column, justify="right" if column else "left")
    rows = (
        ("valid rate", "valid_rate"),
        ("mean score of valid, equal n", "mean_score_equal_n"),
        ("mean score of valid, all", "mean_score"),
        ("best score", "best_score"),
        ("mean Δt (s)", "mean_duration_s"),
    )
    for label, key in rows:
        found = {name: [run[name][key] for run in runs if run[name][key] is not None] for name in ("before", "after")}
        table.add_row(label, *(mean_sd(values) if values else "-" for values in found.values()))
    for run_ in runs:
        table.add_row(
            f"valid rate, seed {run_['seed']}", *(f"{run_[name]['valid_rate']:.3f}" for name in ("before", "after"))
        )
    console = PlainConsole()
    console.print(table)
    for stage in STAGES:
        seconds = mean_sd([run_[stage]["wall_s"] for run_ in runs], "{:.0f}")
        memory = max(run_[stage]["peak_memory_mb"] for run_ in runs)
        console.print(f"{stage:<10} {seconds} s, at most {memory:.0f} MB", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--competitions", nargs="+", default=["digits"])
    parser.add_argument("--num_programs", type=int, default=5760, help="that the starter learns from")
    parser.add_argument("--num_samples", type=int, default=128)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-quickstart"))
    args, training = parser.parse_known_args()
    runs, folders = [], []
    for competition in args.competitions:
        outputs = [args.output / f"{load_competition(competition).slug}-{seed}" for seed in args.seeds]
        measured = [
            one_seed(seed, competition, output, args, training)
            for seed, output in zip(args.seeds, outputs, strict=True)
        ]
        show(competition, args.num_samples, measured)
        runs += measured
        folders += [str(output / "evaluation") for output in outputs]
    (args.output / "results.json").write_text(json.dumps(runs, indent=2) + "\n")
    compare = [sys.executable, "-m", "trl_mle.cli", "compare", *folders]
    subprocess.run([*compare, "--markdown", str(args.output / "results.md")], check=True)


if __name__ == "__main__":
    main()
