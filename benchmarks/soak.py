"""
An executor that runs hostile and good programs for a long time: do the memory, descriptors, threads, processes and files of the
calling process and of the warm parents stay flat, and is every good program still run as it should?

    python benchmarks/soak.py --minutes 20

Runs each tier of the sandbox for so many minutes. Programs come in batches, one in ten of them hostile (`tests/execution/hostile`),
most of the others for one competition and some for forty, so that copies of their data come and go. After each batch it
measures. Flat means: the median of the last quarter is within a tenth of the median of the second quarter, or no larger; the
first quarter is left out, in which caches fill.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from statistics import median

import psutil
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor, Outcome, cgroups, sandbox
from trl_mle.showing import PlainConsole


ROOT = Path(__file__).parent.parent
SOLUTION = "import shutil; shutil.copyfile('input/sample_submission.csv', 'submission.csv')"
PRELUDE = (ROOT / "tests/execution/hostile_prelude.py").read_text()
LIMITS = {"timeout_s": 3.0, "memory_mb": 512, "disk_mb": 64, "output_kb": 64, "max_processes": 64}
HOSTILE, ELSEWHERE = 0.1, 0.02  # shares of programs: hostile ones, and good ones for one of the other competitions
TIERS = [tier.name for tier in sandbox.TIERS]
OTHERS = [f"task:train/{number}" for number in range(40)]  # more than there may be copies of data


def measure(me: psutil.Process, run_dir: Path) -> dict[str, float]:
    """What an executor could leave behind."""
    children, memory = me.children(recursive=True), 0
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):  # the init of a program that has ended
            memory += child.memory_full_info().pss
    return {
        "memory of the caller (MB)": me.memory_info().rss / 2**20,
        "memory of warm parents (MB)": memory / 2**20,
        "descriptors": me.num_fds(),
        "threads": me.num_threads(),
        "processes": len(children),
        "files in /tmp": sum(1 + len(files) for _, _, files in os.walk(run_dir)),
        "files in /dev/shm": len(os.listdir("/dev/shm")),
        "control groups": sum(len(list(parent.glob(f"{run_dir.name}.*"))) for parent in cgroups.parents()),
    }


def soak(tier: str, minutes: float, size: int, console: PlainConsole) -> dict:
    """Runs programs in a tier for so many minutes, `size` at a time; returns what was measured."""
    rng, me = random.Random(0), psutil.Process()
    competition, *others = (load_competition(name) for name in ("wine", *OTHERS))
    texts = {path.stem: path.read_text() for path in sorted((ROOT / "tests/execution/hostile").glob("*.py"))}
    hostile = [PRELUDE + text for text in texts.values() if "@" not in text]  # the others need what the tests set up
    rows: list[dict[str, float]] = []
    outcomes: dict[str, Counter[str]] = {"good": Counter(), "hostile": Counter()}
    loot = 0
    with LocalExecutor(sandbox=tier, **LIMITS) as executor:
        console.print(
            f"{tier}: {len(hostile)} hostile programs, {executor.max_parallel} at a time, {minutes:g} minutes"
        )
        started = time.monotonic()
        while (passed := (time.monotonic() - started) / 60) < minutes:
            kinds = ["hostile" if rng.random() < HOSTILE else "good" for _ in range(size)]
            batch = [
                (rng.choice(hostile), competition)
                if kind == "hostile"
                else (f"{SOLUTION}\n# {rng.random()}", rng.choice(others) if rng.random() < ELSEWHERE else competition)
                for kind in kinds
            ]
            for kind, result in zip(kinds, executor.run_many(batch), strict=True):
                loot += "LOOT" in result.stdout
                outcome = result.outcome
                if kind == "good" and outcome is Outcome.OK and result.submission is None:
                    outcome = "without its submission"
                outcomes[kind][str(outcome)] += 1
            gc.collect()
            rows.append(
                {
                    "minutes": passed,
                    "programs": sum(map(Counter.total, outcomes.values())),
                    **measure(me, executor._run_dir),
                }
            )
            console.print(
                f"{passed:5.1f} min, {rows[-1]['programs']:.0f} programs, {dict(outcomes['good'])}", highlight=False
            )
    return {
        "tier": tier,
        "rows": rows,
        "outcomes": outcomes,
        "loot": loot,
        "processes left": len(me.children(recursive=True)),
    }


def quarters(values: list[float]) -> tuple[float, float]:
    """Medians of the second quarter and of the last."""
    quarter = max(1, len(values) // 4)
    return median(values[quarter : 2 * quarter] or values), median(values[-quarter:])


def report(found: dict, console: PlainConsole) -> None:
    table = Table(
        title=f"{found['tier']}: {found['rows'][-1]['programs']:.0f} programs in {found['rows'][-1]['minutes']:.0f} min"
    )
    for heading in ("", "second quarter", "last quarter", "flat"):
        table.add_column(heading, justify="right" if heading else "left")
    for name in list(found["rows"][0])[2:]:
        second, last = quarters([row[name] for row in found["rows"]])
        table.add_row(name, f"{second:.0f}", f"{last:.0f}", "yes" if last <= 1.1 * second else "NO")
    console.print(table)
    for kind, outcomes in found["outcomes"].items():
        console.print(f"{kind}: " + ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())))
    console.print(f"forbidden things that programs got: {found['loot']}; processes left: {found['processes left']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each tier")
    parser.add_argument("--batch", type=int, default=100, help="programs between two measurements")
    parser.add_argument("--tiers", nargs="+", default=TIERS, choices=TIERS)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-soak"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    console = PlainConsole(width=100)
    for tier in args.tiers:
        result = soak(tier, args.minutes, args.batch, console)
        report(result, console)
        (args.output / f"{tier}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
