"""
Is Δt a program's own, whatever else the machine does? And what do programs and training on the same cores cost each other?

    python benchmarks/durations_under_load.py

Four kinds of programs: a loop of Python's, a random forest of scikit-learn, one that streams through memory, one that
sleeps. In each round, in a new order:

- alone: one program at a time, each kind twice;
- batch: all kinds in one batch that fills a slot per core several times, and nothing else;
- training: steps of a small transformer in a process of its own, on all cores, and nothing else;
- shared: the batch beside these steps, on the same cores;
- kept: the same with `training_cores`: training on the first ones, slots on the others only.

Outcome: Δt over the median of its kind alone in the same round, and seconds of a training step over the median of training
alone in the same round: median, and 10% to 90% quantile, over all programs and all steps of 10 rounds. The seconds of a whole
batch, over those of the same without training, show what fewer slots cost. Run it on a machine that has nothing else to do:
on two cores it should take some ten minutes.
"""

import argparse
import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import LocalExecutor, Outcome


CORES = len(os.sched_getaffinity(0))
PROGRAMS = {
    "Python": "total = 0\nfor i in range(6_000_000):\n    total += i * i\n",
    "forest": """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
rng = np.random.default_rng(0)
X, y = rng.normal(size=(2000, 20)), rng.integers(0, 2, 2000)
RandomForestClassifier(n_estimators=60, random_state=0).fit(X, y)
""",
    "memory": "import numpy as np\nx = np.ones(16_000_000)\nfor _ in range(40):\n    x *= 1.0001\n",
    "sleep": "import time\ntime.sleep(0.7)\n",
}
ALONE, TRAINING_S = 2, 6.0  # programs of each kind alone, seconds of training alone, in a round
SETTINGS = ("alone", "batch", "training", "shared", "kept")


def train(training_cores: int) -> None:
    """Makes a step after the other while it is asked to, and prints the seconds of each."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from trl_mle.launching import keep_to_training_cores

    keep_to_training_cores(training_cores)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    model = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(config.vocab_size, (4, 128))

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    print("ready", flush=True)
    while os.read(0, 1):  # until the benchmark ends, whichever way
        seconds = []
        while not seconds or not select.select([0], [], [], 0)[0]:
            began = time.monotonic()
            step()
            seconds.append(time.monotonic() - began)
        os.read(0, 1)
        print(json.dumps(seconds), flush=True)


class Training:
    """A process that trains."""

    def __init__(self, training_cores: int):
        command = [sys.executable, __file__, "train", str(training_cores)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._line()

    def _line(self) -> bytes:
        if not (line := self.process.stdout.readline()):
            sys.exit("durations_under_load.py: error: training has ended")
        return line

    def _send(self, byte: bytes) -> None:
        self.process.stdin.write(byte)
        self.process.stdin.flush()

    @contextmanager
    def going_on(self) -> Iterator[list[float]]:
        """The list has the seconds of each step after the block."""
        steps: list[float] = []
        self._send(b"g")
        yield steps
        self._send(b"s")
        steps += json.loads(self._line())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Load:
    """All that is measured, in rows."""

    def __init__(self, copies: int, training_cores: int, competition: Competition):
        self.batch = [(kind, (PROGRAMS[kind], competition)) for kind in PROGRAMS for _ in range(copies)]
        self.rows: list[dict] = []
        self._on_all = LocalExecutor(CORES, timeout_s=600)
        self._on_others = LocalExecutor(training_cores=training_cores, timeout_s=600)
        self._shared, self._kept = Training(0), Training(training_cores)
        for executor in (self._on_all, self._on_others):
            executor.run_many([("pass", competition)])  # its warm parent is up

    def close(self) -> None:
        for one in (self._on_all, self._on_others, self._shared, self._kept):
            one.close()

    def measure(self, setting: str, number: int, rng: random.Random) -> None:
        def note(kind: str, seconds: list[float]) -> None:
            self.rows += [{"round": number, "setting": setting, "kind": kind, "seconds": value} for value in seconds]

        def run(executor: LocalExecutor, programs: list) -> None:
            results = executor.run_many([item for _, item in programs])
            assert all(result.outcome is Outcome.OK for result in results), results
            for (kind, _), result in zip(programs, results, strict=True):
                note(kind, [result.duration_s])

        def run_batch(executor: LocalExecutor) -> None:
            began = time.monotonic()
            run(executor, rng.sample(self.batch, len(self.batch)))
            note("whole batch", [time.monotonic() - began])

        if setting == "alone":
            for program in dict(self.batch).items():
                for _ in range(ALONE):
                    run(self._on_all, [program])
        elif setting == "batch":
            run_batch(self._on_all)
        elif setting == "training":
            with self._shared.going_on() as steps:
                time.sleep(TRAINING_S)
            note("step", steps)
        else:
            training = self._shared if setting == "shared" else self._kept
            with training.going_on() as steps:
                run_batch(self._on_all if setting == "shared" else self._on_others)
            note("step", steps)


def summarize(rows: list[dict]) -> dict[str, dict]:
    """By kind and setting, quantiles of seconds over the median of the kind's base in the same round."""
    table = pd.DataFrame(rows)
    base_of = {"step": "training", "whole batch": "batch"}
    is_base = table["setting"] == table["kind"].map(base_of).fillna("alone")
    base = table[is_base].groupby(["round", "kind"])["seconds"].median().rename("base")
    table = table.join(base, on=["round", "kind"])
    table["ratio"] = table["seconds"] / table["base"]
    figures: dict[str, dict] = {}
    for kind in (*PROGRAMS, *base_of):
        of_kind = table[table["kind"] == kind]
        figures[kind] = {"base_s": of_kind["base"].median()}
        for setting, found in of_kind.groupby("setting")["ratio"]:
            low, median, high = np.quantile(found, [0.1, 0.5, 0.9])
            figures[kind][setting] = {"p10": low, "median": median, "p90": high, "count": len(found)}
    return figures


def main() -> None:
    if sys.argv[1:2] == ["train"]:
        train(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--copies", type=int, default=2 * CORES, help="programs of each kind in a batch")
    parser.add_argument("--training_cores", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-durations-under-load.json"))
    args = parser.parse_args()
    if args.training_cores >= CORES:
        sys.exit(f"durations_under_load.py: error: {CORES} cores are too few: programs need one besides training's")
    console = Console()
    console.print("starting two processes that train")
    rng = random.Random(0)
    load = Load(args.copies, args.training_cores, load_competition("wine"))
    try:
        for number in range(args.rounds):
            for setting in rng.sample(SETTINGS, len(SETTINGS)):
                began = time.monotonic()
                load.measure(setting, number, rng)
                passed = time.monotonic() - began
                console.print(f"round {number + 1}/{args.rounds}: {setting:<8} {passed:6.1f} s", highlight=False)
    finally:
        load.close()

    figures = summarize(load.rows)
    table = Table(
        title=f"{CORES} cores, {args.rounds} rounds of {len(load.batch)} programs, training_cores {args.training_cores}",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for column in ("", "1 = (s)", *SETTINGS):
        table.add_column(column, justify="left" if column == "" else "right")
    for kind, of_kind in figures.items():
        cells = [of_kind.get(setting) for setting in SETTINGS]
        shown = [f"{cell['median']:.2f}\n{cell['p10']:.2f}–{cell['p90']:.2f}" if cell else "" for cell in cells]
        table.add_row(kind, f"{of_kind['base_s']:.2f}", *shown)
    console.print(table)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    settings = {"cores": CORES, "rounds": args.rounds, "copies": args.copies, "training_cores": args.training_cores}
    args.output.write_text(json.dumps({**settings, "figures": figures, "rows": load.rows}) + "\n")
    console.print(f"figures: {args.output}")


if __name__ == "__main__":
    main()
