"""
How fast a tiny policy trains and samples on cores that others use, by how long torch's threads spin before they sleep.

    python benchmarks/waiting_threads.py

The load is a process that counts, or several, for each core. Settings run in turns, each in a process of its own; the table has medians.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median

from rich.console import Console
from rich.table import Table


SETTINGS = ["GOMP_SPINCOUNT=", "GOMP_SPINCOUNT=10000", "GOMP_SPINCOUNT=0", "OMP_WAIT_POLICY=PASSIVE"]
BUSY = "while True: pass"


def measure() -> tuple[float, float]:
    """Seconds of a step of 16 x 256 tokens, and of sampling 60 tokens."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=2000, num_hidden_layers=4, **sizes))
    ids = torch.randint(0, 2000, (16, 256))
    seconds = []
    for _ in range(4):
        started = time.monotonic()
        model(input_ids=ids, labels=ids).loss.backward()
        seconds.append(time.monotonic() - started)
    started = time.monotonic()
    model.generate(ids[:, :8], max_new_tokens=60, do_sample=False)
    return median(seconds[1:]), time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 2], help="busy processes for each core")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure()))
        return
    table = Table("busy processes per core", "setting", "step (s)", "60 tokens (s)")
    for load in args.loads:
        busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(load * len(os.sched_getaffinity(0)))]
        found: dict[str, list[tuple[float, float]]] = {setting: [] for setting in SETTINGS}
        try:
            for _ in range(args.rounds):
                for setting, measured in found.items():
                    name, _, value = setting.partition("=")
                    environment = os.environ | ({name: value} if value else {})
                    command = [sys.executable, __file__, "--one"]
                    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
                    measured.append(json.loads(output.splitlines()[-1]))
        finally:
            for process in busy:
                process.kill()
        for setting, measured in found.items():
            table.add_row(str(load), setting, *(f"{median(column):.2f}" for column in zip(*measured, strict=True)))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
