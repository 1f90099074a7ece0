"""
Checks whether a change leaves training the same, to the last bit: digests the weights, prompts, completions, rewards
and advantages of three steps on replayed programs, for each way of training.

    python benchmarks/bits.py --output before.json     # on the old commit
    python benchmarks/bits.py --compare before.json    # on the new one, on the same machine

Takes about five minutes on two cores; `--only` some of the ways to train takes less.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from rich.table import Table

from trl_mle.showing import PlainConsole


ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import pool_runs  # noqa: E402
from support.tiny_models import LINES, prompts, save_tiny_model  # noqa: E402


STEPS = 3
BATCH = pool_runs.GROUPS * pool_runs.GROUP_SIZE
SCRATCH = {"improve_probability": 0.0}
ASYNC = {"async_rollouts": True, "max_in_flight": 2 * BATCH, "patient": True}
CASES = {
    "synchronous": SCRATCH,
    "improve prompts": {},
    "mean_rank": {"objective": "mean_rank"},
    "max_at_k": SCRATCH | {"objective": "max_at_k", "max_at_k": 2},
    "reward, unweighted": SCRATCH | {"duration_weighting": "none"},
    "asynchronous, linear": ASYNC,
    "asynchronous, unweighted": ASYNC | {"duration_weighting": "none"},
    "asynchronous, mean_rank": ASYNC | {"objective": "mean_rank", "duration_weighting": "none"},
}


def digest(record: dict) -> str:
    """Digest of everything that a process did and learnt."""
    turns = [{name: value for name, value in turn.items() if name != "generation"} for turn in record["turns"]]
    pool = {name: [item for item in found if item["score"] is not None] for name, found in record["pool"].items()}
    found = hashlib.sha256(json.dumps([turns, record["losses"], pool]).encode())
    for name, weights in sorted(record["weights"].items()):
        found.update(name.encode() + weights.numpy().tobytes())
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--output", type=Path, help="file for the digests")
    parser.add_argument("--compare", type=Path, help="such a file from another commit")
    args = parser.parse_args()
    before = json.loads(args.compare.read_text()) if args.compare else {}
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        model = save_tiny_model(Path(folder, "model"), prompts(), vocab_size=1200, lines=LINES)
        for processes in (1, 2):
            place = Path(folder, str(processes))
            place.mkdir()
            runs = {name: CASES[name] | {"model": model, "steps": STEPS} for name in args.only}
            started = pool_runs.start(place, runs, processes)
            for name in runs:
                for rank, record in enumerate(pool_runs.finish(started, place, name, timeout_s=1200)):
                    digests[f"{name}, rank {rank} of {processes}"] = digest(record)
    table = Table("run", "digest", *["same"] * bool(before))
    for name, found in digests.items():
        table.add_row(name, found[:16], *["yes" if found == before.get(name) else "NO"] * bool(before))
    PlainConsole().print(table)
    if args.output:
        args.output.write_text(json.dumps(digests, indent=2))
    if before and any(found != before.get(name) for name, found in digests.items()):
        sys.exit("bits.py: training has changed")


if __name__ == "__main__":
    main()
