"""
Ten thousand programs through one executor, hostile ones among them: do memory, descriptors and processes of the caller
stay flat?

    python benchmarks/soak.py
"""

import argparse
import gc
import json
import random
import time
from collections import Counter
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor


ROOT = Path(__file__).parent.parent
SOLUTION = "import shutil; shutil.copyfile('input/sample_submission.csv', 'submission.csv')"
PRELUDE = "import os\ndef attempt(name, action):\n    try: action()\n    except Exception: pass\n    else: print('LOOT', name)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_programs", type=int, default=10_000)
    parser.add_argument("--hostile", type=float, default=0.03, help="share of hostile programs")
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-soak.json"))
    args = parser.parse_args()
    rng = random.Random(0)
    competition = load_competition("wine")
    hostile = [path.read_text() for path in sorted((ROOT / "tests/execution/hostile").glob("*.py"))]
    hostile = [PRELUDE + text for text in hostile if "@" not in text]  # the others need the setup of the tests
    me = psutil.Process()
    table = Table("programs", "minutes", "RSS (MB)", "descriptors", "threads", "processes")
    rows, outcomes = [], Counter()
    started = time.monotonic()
    with LocalExecutor(
        timeout_s=1.0, memory_mb=512, disk_mb=64, output_kb=64, max_processes=64, sandbox=args.sandbox
    ) as executor:
        console = Console()
        console.print(f"{len(hostile)} hostile programs, isolated by {executor.tier}")
        done = 0
        while done < args.num_programs:
            batch = [
                (rng.choice(hostile) if rng.random() < args.hostile else f"{SOLUTION}\n# {done + i}", competition)
                for i in range(min(500, args.num_programs - done))
            ]
            results = executor.run_many(batch)
            done += len(batch)
            outcomes.update(str(result.outcome) for result in results)
            assert not any("LOOT" in result.stdout for result in results)
            del results, batch
            gc.collect()
            row = {
                "programs": done,
                "minutes": (time.monotonic() - started) / 60,
                "rss_mb": me.memory_info().rss / 2**20,
                "descriptors": me.num_fds(),
                "threads": me.num_threads(),
                "processes": len(me.children(recursive=True)),
            }
            rows.append(row)
            console.print("  ".join(f"{name} {value:.5g}" for name, value in row.items()), highlight=False)
    for row in rows[1 :: max(1, len(rows) // 5)]:
        table.add_row(*(f"{value:.5g}" for value in row.values()))
    console.print(table)
    console.print(f"outcomes: {dict(outcomes)}; processes left: {len(me.children(recursive=True))}")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"rows": rows, "outcomes": outcomes}, indent=2) + "\n")


if __name__ == "__main__":
    main()
