"""
What many tasks cost: a run over 5,000 generated tasks beside a run over one, with the same policy and the same programs.

    python benchmarks/tasks.py start    # seconds until the first step has ended, each time in a new process
    python benchmarks/tasks.py steps    # seconds that a step of 64 programs in 4 groups takes for its tasks
    python benchmarks/tasks.py memory   # resident memory of the run and its processes over 1,000 different tasks

The policy writes one of four programs that run in any task, and take as long in each: they read the training data, fit a
forest to numbers of their own, and submit the sample submission.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from tiny_policy import TRAINING, save_policy
from transformers import TrainerCallback

from trl_mle.competitions import TaskSet
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


ARMS = {"one": ["task:train/0"], "5,000": ["task:train/0-4999"]}
PROGRAM = """```python
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

train = pd.read_csv("input/train.csv")
x = np.random.default_rng(0).random((500, 8))
model = RandomForestRegressor({trees}).fit(x, x.sum(axis=1))
pd.read_csv("input/sample_submission.csv").to_csv("submission.csv", index=False)
```"""


class Watch(TrainerCallback):
    """Notes the memory of this process and its children at the end of each step, in MB."""

    def __init__(self) -> None:
        self.resident: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        own = psutil.Process()
        self.resident.append(sum(_proportional(child) for child in (own, *own.children(recursive=True))) / 1e6)


def _proportional(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.Error:  # it has ended
        return 0


def train(tasks: list[str], steps: int, group_size: int, trees: int) -> Watch:
    """Trains a tiny policy, four groups a step."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder, LocalExecutor(timeout_s=60) as executor:
        programs = [PROGRAM.format(trees=trees + i) for i in range(4)]
        only = save_policy(Path(folder) / "policy", programs, seed=0)
        args = MLEGRPOConfig(
            folder,
            max_steps=steps,
            per_device_train_batch_size=4 * group_size,
            num_generations=group_size,
            max_prompt_length=None,  # the policy counts letters
            generation_kwargs=only,
            **TRAINING,
        )
        reward = MLEReward(tasks, executor, AstInstrumenter(), show_progress=False)
        trainer = MLEGRPOTrainer(
            str(Path(folder) / "policy"), reward, args, competitions=reward.competitions, callbacks=[watch]
        )
        trainer.train()
    return watch


def start(repeats: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ARMS}
    for _ in range(repeats):
        for name in ARMS:
            begun = time.monotonic()
            subprocess.run([sys.executable, __file__, "once", "--arm", name], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.monotonic() - begun)
    _show("seconds until the first step has ended", seconds)


def steps(repeats: int) -> None:
    """In turns, so that other work on the machine slows both alike. Sampling and training do not depend on the task."""
    seconds: dict[str, list[float]] = {name: [] for name in ARMS}
    tasks, program = TaskSet(ARMS["5,000"]), PROGRAM.format(trees=20)
    with LocalExecutor(timeout_s=60) as executor:
        reward = MLEReward(tasks, executor, AstInstrumenter(), show_progress=False)
        reward.evaluate_many([(program, "task:train/0")])
        for i in range(4 * repeats):
            for name, asked in (("one", [0, 0, 0, 0]), ("5,000", [4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4])):
                begun = time.monotonic()
                names = [f"task:train/{number}" for number in asked]
                for task in set(names):
                    scratch_prompt(tasks[task], executor.limits)
                reward.evaluate_many([(program, task) for task in names for _ in range(16)])
                seconds[name].append(time.monotonic() - begun)
    _show("seconds for the prompts and programs of a step: 64 programs in 4 groups", seconds)


def _show(title: str, seconds: dict[str, list[float]]) -> None:
    table = Table("tasks", "median", "smallest", "largest", "times", title=title)
    for name, values in seconds.items():
        table.add_row(
            name, *(f"{value:.2f}" for value in (median(values), min(values), max(values))), str(len(values))
        )
    Console().print(table)
    one, many = (median(values) for values in seconds.values())
    print(json.dumps({"difference_s": round(many - one, 2), "ratio": round(many / one, 3)}))


def memory(tasks: int) -> None:
    count = tasks // 4
    resident = train([f"task:train/0-{tasks - 1}"], count, 2, trees=1).resident
    table = Table("tasks so far", "resident (MB)", title="memory of the run and its processes")
    for i in range(count // 10 - 1, count, count // 10):
        table.add_row(str(4 * (i + 1)), f"{resident[i]:.0f}")
    Console().print(table)
    early, late = median(resident[count // 10 : count // 5]), median(resident[-count // 10 :])
    print(json.dumps({"early_mb": round(early), "late_mb": round(late), "ratio": round(late / early, 3)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "steps", "memory", "once"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--arm", choices=ARMS, default="one")
    args = parser.parse_args()
    if args.what == "once":
        train(ARMS[args.arm], 1, 2, trees=1)
    elif args.what == "memory":
        memory(args.tasks)
    else:
        {"start": start, "steps": steps}[args.what](args.repeats)


if __name__ == "__main__":
    main()
