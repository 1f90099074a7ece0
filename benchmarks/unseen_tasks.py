"""
Trains a pretrained model on generated tasks, and tests it on tasks of other structures.

    python benchmarks/unseen_tasks.py

Written down before the first run:

- Question: does a policy that was trained on 64 tasks, `task:train/0-63`, write better programs for 32 that it never saw,
  `task:test/0-31`?
- Qwen2.5-Coder-0.5B-Instruct in bfloat16 with LoRA, as in `pretrained_training.py`: the paper's reward, without milestones, because
  the first runs with them ended with fewer valid programs there. 32 steps of 16 programs in two groups of 8, so that each task is asked once.
- Before and after training, 4 programs for each of the 32 tasks, and for the first 32 that were trained on.
- Primary outcome: the share of valid programs on the 32 unseen tasks, after less before, paired by task: mean, and 95% interval of a
  bootstrap over tasks and seeds. Also: the mean normalised score (0: the floor, 1: the ceiling; invalid programs and those
  below the floor count 0), and both on the tasks that were trained on.
- Two seeds. Whatever comes out is reported.
- Changed before anything was sampled from a trained policy: each task is sampled with its own seeds. With the same ones for all, the first of
  the untrained model's 4 programs was valid for 20 of the unseen tasks, the others for 2 to 4: the tasks were not independent.

Written down on 2026-11-29, before its first run: the same with `--ideas default`: ideas in all prompts, before and after, `max_at_k` (k = 4) and
the milestones, as in the recipes. Primary outcome as above. Also: tasks solved, with a valid program among the four, of all and of those that ask
for probabilities, beside those without ideas; at least 28 of the 32 unseen ones are hoped for. One seed at first.

A finished step and a finished sample are kept: a run that was interrupted goes on. On one core (`taskset -c 0`), a seed takes some two hours.
Seeds can be trained side by side, in as many processes, once `--seeds` without a number has sampled the untrained model.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from paired import bootstrap, evaluations, read
from peft import LoraConfig
from pretrained_training import ARMS, LORA, TRAINING, evaluate
from rich.table import Table
from transformers.trainer_utils import get_last_checkpoint

from trl_mle.competitions import TaskSet
from trl_mle.competitions.families import score_range
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.showing import PlainConsole
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


TRAINED = "task:train/0-63"
GROUPS = {"num_generations": 8, "max_prompt_length": None}
REWARD = {"none": {"milestone_reward": 0.0}, "default": {}}  # by ideas
SAMPLES = 4


def train(args: argparse.Namespace, seed: int, folder: Path) -> None:
    with LocalExecutor(timeout_s=30, memory_mb=4096) as executor:
        tasks = TaskSet([TRAINED])
        reward = MLEReward(tasks, executor, AstInstrumenter(), show_progress=False, **REWARD[args.ideas])
        options = TRAINING | (ARMS["ideas"] if args.ideas == "default" else {}) | GROUPS
        config = MLEGRPOConfig(str(folder), seed=seed, max_steps=args.steps, **options)
        trainer = MLEGRPOTrainer(args.model, reward, config, competitions=tasks, peft_config=LoraConfig(**LORA))
        trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.is_dir() else None)
        trainer.save_model()
        history = [entry for entry in trainer.state.log_history if "mle/valid_rate" in entry]
    (folder / "steps.json").write_text(json.dumps([entry["mle/valid_rate"] for entry in history]))


def sample(policy: str, tasks: str, ideas: str, folder: Path) -> list[dict[str, Any]]:
    """By task, the share of valid programs and their mean normalised score."""
    evaluate(policy, tasks, folder, num_samples=SAMPLES, batch_size=SAMPLES, ideas=ideas)
    scores: dict[str, list[float]] = {}
    for line in evaluations(folder / "policy.jsonl"):
        score = line["score"]["value"] if line["score"] and line["score"]["valid"] else None
        scores.setdefault(line["competition"], []).append(np.nan if score is None else score)
    loaded = TaskSet([tasks])
    found = []
    for name, values in scores.items():
        normalised = score_range(loaded[name]).normalised(np.array(values))
        worth = np.clip(np.nan_to_num(normalised, nan=0.0), 0.0, None)
        found.append({"task": name, "valid": 1 - float(np.isnan(values).mean()), "normalised": float(worth.mean())})
    return found


def figure(row: dict[str, Any], outcome: str) -> float:
    """A task's outcome; it counts as solved if one of its programs is valid."""
    return float(row["valid"] > 0 if outcome == "solved" else row[outcome])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(Path("~/.cache/trl_mle/models/coder-0.5b").expanduser()))
    parser.add_argument("--ideas", choices=list(REWARD), default="none", help="with default, another --output")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--tasks", type=int, default=32, help="unseen tasks, and tasks that were trained on")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-unseen-tasks"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.output.mkdir(parents=True, exist_ok=True)
    seen, unseen = (f"task:{side}/0-{args.tasks - 1}" for side in ("train", "test"))
    path = args.output / "tasks.jsonl"
    found = {(line["policy"], line["tasks"]): line for line in read(path)}
    for tasks, policy in product((unseen, seen), ("before", *args.seeds)):
        if (policy, tasks) in found:
            continue
        folder = args.output / str(policy)
        if policy != "before" and not (folder / "steps.json").is_file():
            train(args, policy, folder)
        place = args.output / f"{policy}-{'unseen' if tasks == unseen else 'seen'}"
        rows = sample(args.model if policy == "before" else str(folder), tasks, args.ideas, place)
        found[policy, tasks] = {"policy": policy, "tasks": tasks, "rows": rows}
        with path.open("a") as file:
            file.write(json.dumps(found[policy, tasks]) + "\n")
    if not args.seeds:
        return

    table = Table()
    table.title = f"{SAMPLES} programs for each task; after less before: 95% interval over tasks and seeds"
    for column in ("tasks", "outcome", "before", *(f"after, seed {seed}" for seed in args.seeds), "after less before"):
        table.add_column(column, justify="left" if column in ("tasks", "outcome") else "right")
    for tasks in (unseen, seen):
        for outcome in ("valid", "solved", "normalised"):
            figures = {
                policy: np.array([figure(row, outcome) for row in sorted(line["rows"], key=lambda row: row["task"])])
                for (policy, of), line in found.items()
                if of == tasks
            }
            gain = np.stack([figures[seed] - figures["before"] for seed in args.seeds], axis=1)
            cells = [f"{figures[policy].mean():.2f}" for policy in ("before", *args.seeds)]
            table.add_row(tasks, outcome, *cells, "{:+.2f} ({:+.2f} to {:+.2f})".format(*bootstrap(gain)))
    PlainConsole(width=120).print(table)


if __name__ == "__main__":
    main()
