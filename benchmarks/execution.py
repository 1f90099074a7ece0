"""
Measures the cost of the executor, compared with a plain `subprocess` without a sandbox, as in other agents' frameworks.

    python benchmarks/execution.py

1. Overhead: 256 small pandas and scikit-learn programs (`programs.jsonl`) in four rounds, each by (i) a plain subprocess,
   (ii) the executor, as many at a time as there are cores. The
   *excess* is the time of a program in its slot beyond that of its body: its Δt alone (median of three),
   with all imports done.
2. Utilisation: half as many computing programs whose durations have a heavy tail (0.2 to 20 s); the CPU seconds of all of them
   over wall clock times cores.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from rich.table import Table

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.showing import PlainConsole


ROUNDS = 4
COMPUTE = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: sum(range(1000))\n"

Programs = list[tuple[str, Competition]]


def plain(programs: Programs, slots: int) -> tuple[float, list[float]]:
    """Seconds for all programs, and for each in its slot, by `subprocess` alone."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def one(item: tuple[str, Competition]) -> float:
        source, competition = item
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "input").symlink_to(competition.public_dir)
            Path(folder, "solution.py").write_text(source)
            started = time.monotonic()
            run = subprocess.run([sys.executable, "solution.py"], cwd=folder, env=environment, capture_output=True)
            passed = time.monotonic() - started
            assert run.returncode == 0, run.stderr
            assert Path(folder, "submission.csv").read_bytes()
        return passed

    started = time.monotonic()
    with ThreadPoolExecutor(slots) as threads:
        in_slot = list(threads.map(one, programs))
    return time.monotonic() - started, in_slot


def ours(executor: LocalExecutor, programs: Programs) -> tuple[float, list[float]]:
    """The same with the executor."""
    in_slot = [0.0] * len(programs)
    started = time.monotonic()
    futures = []
    for index, item in enumerate(programs):
        future = executor.submit(*item)
        future.add_done_callback(
            lambda done, index=index: in_slot.__setitem__(
                index, time.monotonic() - started - done.result().queue_wait_s
            )
        )
        futures.append(future)
    results = [future.result() for future in futures]
    assert all(result.outcome is Outcome.OK and result.submission for result in results), results
    return time.monotonic() - started, in_slot


def overhead(programs: Programs, slots: int, console: PlainConsole) -> dict:
    with LocalExecutor(max_parallel=1) as alone:
        alone.run_many(programs[:8])  # starts the warm parents
        bodies = [median(alone.run_many([item])[0].duration_s for _ in range(3)) for item in programs]
    seconds: dict[str, float] = dict.fromkeys(("plain", "ours"), 0.0)
    excess: dict[str, list[float]] = {name: [] for name in seconds}
    with LocalExecutor(slots) as executor:
        executor.run_many([(program, competition) for program, competition in programs[:8]])
        size = len(programs) // ROUNDS
        for start in range(0, size * ROUNDS, size):
            part = programs[start : start + size]
            for name, run in (
                ("plain", lambda part=part: plain(part, slots)),
                ("ours", lambda part=part: ours(executor, part)),
            ):
                wall, in_slot = run()
                seconds[name] += wall
                excess[name] += [a - b for a, b in zip(in_slot, bodies[start : start + size], strict=True)]
                console.print(f"programs {start + 1}-{start + size}: {name:<5} {wall:6.1f} s", highlight=False)
    count = size * ROUNDS
    return {
        "programs": count,
        "body_s": {"median": median(bodies), "min": min(bodies), "max": max(bodies)},
        "programs_per_s": {name: count / value for name, value in seconds.items()},
        "excess_s_median": {name: median(values) for name, values in excess.items()},
        "throughput_over_plain": seconds["plain"] / seconds["ours"],
    }


def utilisation(slots: int, count: int, competition: Competition) -> dict:
    rng = random.Random(0)
    durations = [min(20.0, 0.2 * rng.paretovariate(0.9)) for _ in range(count)]
    with LocalExecutor(slots, timeout_s=120) as executor:
        executor.run_many([("pass", competition)])
        started = time.monotonic()
        results = executor.run_many([(COMPUTE.format(seconds=seconds), competition) for seconds in durations])
        wall = time.monotonic() - started
    cpu = sum(result.cpu_s for result in results)
    return {"programs": count, "wall_s": wall, "cpu_s": cpu, "longest_s": max(durations), "used": cpu / (wall * slots)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_programs", type=int, default=256, help="at least 4")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-execution.json"))
    args = parser.parse_args()
    console = PlainConsole()
    slots = len(os.sched_getaffinity(0))
    rows = [json.loads(line) for line in Path(__file__).with_name("programs.jsonl").read_text().splitlines()]
    programs = [(row["source"], load_competition(row["competition"])) for row in rows[: args.num_programs]]
    figures = {
        "slots": slots,
        "overhead": overhead(programs, slots, console),
        "utilisation": utilisation(slots, args.num_programs // 2, programs[0][1]),
    }
    costs = figures["overhead"]
    table = Table(
        title=f"{costs['programs']} programs, bodies of {costs['body_s']['median']:.2f} s (median), {slots} slots"
    )
    for column in ("", "plain subprocess", "this executor"):
        table.add_column(column, justify="left" if column == "" else "right")
    names = ("plain", "ours")
    table.add_row("programs per second", *(f"{costs['programs_per_s'][name]:.2f}" for name in names))
    table.add_row("median excess (ms)", *(f"{1000 * costs['excess_s_median'][name]:.0f}" for name in names))
    table.add_row("throughput, plain = 1", "1", f"{costs['throughput_over_plain']:.2f}")
    console.print(table)
    used = figures["utilisation"]
    console.print(
        f"utilisation {used['used']:.1%} of {slots} cores over {used['wall_s']:.0f} s, {used['programs']} programs"
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(figures, indent=2) + "\n")
    console.print(f"figures: {args.output}")


if __name__ == "__main__":
    main()
