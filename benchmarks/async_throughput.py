"""
Measures what asynchronous training saves: wall clock per 1,000 trained programs, compared with the least time that the
slots need: Σ Δt / slots of as many programs in the order of submission, and of those that were trained on (slow ones may
still run at the end).

    python benchmarks/async_throughput.py sleep
    python benchmarks/async_throughput.py cpu

`sleep`: programs that sleep, for log-normal times (σ = 1.5), and one in 32 for thirty times the median; as many slots as programs in
a batch (32). `cpu`: programs that compute, on the machine's own cores. The policy's programs are replaced by these; the
trainer, the executor and its sandbox are the real ones. In a run, all modes of training get the same times, in the same
order; another run has other times. Written down before the first run:

- Question: how much longer than the slots need at least does training take, synchronous and asynchronous?
- Primary outcome: wall clock / least time of the first 1,024 programs (128 that compute); the mean of three runs, and its 95%
  interval (Student's). Three differences between the modes, paired by run, two-sided t tests,
  Holm's correction.

A finished run of a mode is a line of `runs.jsonl`, and is not run again.
"""

import argparse
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations, islice, product
from pathlib import Path
from statistics import fmean

from datasets import Dataset
from paired import hypotheses, interval, read
from rich.console import Console
from rich.table import Table
from tiny_policy import TRAINING, save_policy
from transformers import TrainerCallback

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


GROUP_SIZE = 8
KINDS = {
    "sleep": {
        "slots": 32,
        "batch": 32,
        "programs": 1024,
        "median_s": 1.0,
        "code": "import time\ntime.sleep({seconds})",
    },
    "cpu": {
        "slots": len(os.sched_getaffinity(0)),
        "batch": 16,
        "programs": 128,
        "median_s": 0.1,
        "code": "import time\nwhile time.process_time() < {seconds}:\n    pass",
    },
}
MODES = {
    "synchronous": {"async_rollouts": False},
    "asynchronous, groups": {"async_rollouts": True, "async_unit": "group", "batches_in_flight": 8},
    "asynchronous, rollouts": {"async_rollouts": True, "async_unit": "rollout", "batches_in_flight": 4},
}


def durations(median_s: float, seed: int) -> Iterator[float]:
    """Yields the seconds of each program."""
    rng = random.Random(seed)
    while True:
        block = [rng.lognormvariate(math.log(median_s), 1.5) for _ in range(31)] + [30 * median_s]
        rng.shuffle(block)
        yield from block


class GivenPrograms(MLEReward):
    """Executes the given programs instead of the policy's."""

    def __init__(self, *args, programs: Iterator[str], **kwargs):
        super().__init__(*args, **kwargs)
        self.programs = programs

    def submit(self, items):
        return super().submit([(f"```python\n{next(self.programs)}\n```", competition) for _, competition in items])


class TimingTrainer(MLEGRPOTrainer):
    """Sums the seconds of the programs that were trained on."""

    trained_s = 0.0

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.trained_s += sum(seconds or 0.0 for seconds in self._mle_step.durations)
        return rewards


class Clock(TrainerCallback):
    """Measures the wall clock of a run, and sums its metrics of asynchronous training."""

    def __init__(self):
        self.wait_s = self.idle_s = 0.0

    def on_train_begin(self, *args, **kwargs):
        self.began = time.monotonic()

    def on_step_end(self, *args, **kwargs):
        self.wall_s = time.monotonic() - self.began

    def on_log(self, args, state, control, logs, **kwargs):
        self.wait_s += logs.get("mle/async/wait_s", 0.0)
        self.idle_s += logs.get("mle/async/idle_s", 0.0)


def measure(kind: dict, mode: dict, num_programs: int, seed: int, folder: Path) -> dict[str, float]:
    """Trains on `num_programs` programs, and returns the figures."""
    competition, steps = load_competition("wine"), num_programs // kind["batch"]
    generation = save_policy(folder / "policy", ["```python\npass\n```", "```python\n1\n```"], seed=0)
    groups = steps * kind["batch"] // GROUP_SIZE
    prompt = [{"role": "user", "content": "Write a program."}]
    options = {name: value for name, value in mode.items() if name != "batches_in_flight"}
    if mode["async_rollouts"]:
        options["max_in_flight"] = mode["batches_in_flight"] * kind["batch"]
    args = MLEGRPOConfig(
        str(folder / "run"),
        max_steps=steps,
        per_device_train_batch_size=kind["batch"],
        num_generations=GROUP_SIZE,
        generation_kwargs=generation,
        **TRAINING,
        **options,
    )
    programs = (kind["code"].format(seconds=seconds) for seconds in durations(kind["median_s"], seed))
    clock = Clock()
    with LocalExecutor(max_parallel=kind["slots"], timeout_s=3600) as executor:
        executor.submit("pass", competition).result()  # starts its warm parent
        trainer = TimingTrainer(
            str(folder / "policy"),
            GivenPrograms([competition], executor, programs=programs, show_progress=False),
            args,
            Dataset.from_dict({"prompt": [prompt] * groups, "competition": [competition.id] * groups}),
            callbacks=[clock],
        )
        trainer.train()
    trained = steps * kind["batch"]
    return {
        "trained": trained,
        "wall_s": clock.wall_s,
        "limit_s": sum(islice(durations(kind["median_s"], seed), trained)) / kind["slots"],
        "trained_limit_s": trainer.trained_s / kind["slots"],
        "wait_s": clock.wait_s,
        "idle_s": clock.idle_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--programs", type=int, help="programs to train on in each run (1,024; 128 that compute)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="one run of each mode for each")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-async-throughput"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    lines = args.output / "runs.jsonl"
    kind = KINDS[args.kind]
    programs = (args.programs or kind["programs"]) // kind["batch"] * kind["batch"]
    runs = {
        (line["mode"], line["seed"]): line
        for line in read(lines)
        if (line["kind"], line["trained"]) == (args.kind, programs)
    }
    for seed, name in product(args.seeds, args.modes):
        if (name, seed) not in runs:
            with tempfile.TemporaryDirectory() as folder:
                figures = measure(kind, MODES[name], programs, seed, Path(folder))
            runs[name, seed] = {"kind": args.kind, "mode": name, "seed": seed} | figures
            with lines.open("a") as file:
                file.write(json.dumps(runs[name, seed]) + "\n")
            print(f"run {seed}, {name}: {figures['wall_s']:.0f} s", flush=True)

    console = Console()
    table = Table(
        title=f"programs that {'sleep' if args.kind == 'sleep' else 'compute'}, {kind['slots']} slots, {programs} trained; mean ± 95% of {len(args.seeds)} runs"
    )
    for heading in ("training", "s per 1,000", "limit", "× limit", "× limit of trained"):
        table.add_column(heading, justify="left" if heading == "training" else "right")
    times = {
        name: [runs[name, seed]["wall_s"] / runs[name, seed]["limit_s"] for seed in args.seeds] for name in args.modes
    }
    for name in args.modes:
        rows = [runs[name, seed] for seed in args.seeds]
        table.add_row(
            name,
            "{:.0f} ± {:.0f}".format(*interval([1000 * row["wall_s"] / programs for row in rows])),
            f"{fmean(1000 * row['limit_s'] / programs for row in rows):.0f}",
            "{:.2f} ± {:.2f}".format(*interval(times[name])),
            "{:.2f} ± {:.2f}".format(*interval([row["wall_s"] / row["trained_limit_s"] for row in rows])),
        )
    console.print(table)
    if len(args.seeds) > 1 and len(args.modes) > 1:
        pairs = {
            f"{one}, less {two}": list(zip(times[one], times[two], strict=True)) for one, two in combinations(times, 2)
        }
        console.print(hypotheses("times the limit", pairs))


if __name__ == "__main__":
    main()
