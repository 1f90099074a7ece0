"""
Does the test suite find faults? Puts each of eleven faults into a copy of a commit, and runs the tests of that room
until the first failure.

    python benchmarks/faults.py [--commit HEAD] [--only duration grader] [--output faults.json]

A fault is a piece of source that occurs once in its file, and its replacement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    room: str
    meaning: str
    file: str  # below trl_mle/
    old: str
    new: str


FAULTS = [
    Fault(
        "trainer",
        "our own failures are trained on",
        "trainer/mle_grpo_trainer.py",
        "rewards_per_func[failed.to(rewards_per_func.device)] = torch.nan",
        "",
    ),
    Fault(
        "trainer",
        "members of a group on two processes get different prompts",
        "trainer/asking/solution_prompts.py",
        "group = (first + i) // self.args.group_size",
        "group = i // self.args.group_size",
    ),
    Fault(
        "trainer",
        "a resumed run draws its prompts anew",
        "trainer/asking/solution_prompts.py",
        'self.generation = state["generation"]',
        "",
    ),
    Fault(
        "duration",
        "unknown durations count as 0 s in the mean",
        "trainer/gradient/duration.py",
        "divisor = durations.nanmean() if",
        "divisor = durations.nan_to_num().mean() if",
    ),
    Fault(
        "executor",
        "a submission may be a link",
        "execution/inside/init.py",
        "os.O_RDONLY | os.O_NOFOLLOW | ",
        "os.O_RDONLY | ",
    ),
    Fault("executor", "two programs share a slot", "execution/slots.py", "fcntl.LOCK_EX | ", "fcntl.LOCK_SH | "),
    Fault(
        "executor",
        "exit code 137 passes for out of memory",
        "execution/answer.py",
        'elif code == -signal.SIGKILL and report["oom_kills"] > 0:',
        "elif code in (137, -signal.SIGKILL):",
    ),
    Fault(
        "grader",
        "rows are compared in the order of the file",
        "competitions/competition.py",
        "if ids.equals(wanted):",
        "if len(ids) == len(wanted):",
    ),
    Fault(
        "grader",
        "log loss is clipped at 1e-15",
        "competitions/metrics.py",
        "eps = np.finfo(float).eps",
        "eps = 1e-15",
    ),
    Fault(
        "verifier",
        "a print may be the first statement of its block",
        "instrumentation/verify.py",
        "                    index\n                    and (",
        "                    (",
    ),
    Fault(
        "verifier",
        "prints may be taken over by a call of setattr",
        "instrumentation/verify.py",
        'args=[_, ast.Constant("print" | "stdout"), *_]',
        'args=[_, ast.Constant("stdout"), *_]',
    ),
]
TESTS = {
    "trainer": ["tests/trainer"],
    "duration": ["tests/trainer"],
    "executor": ["tests/execution"],
    "grader": ["tests/competitions"],
    "verifier": ["tests/instrumentation"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD", help="commit whose tests should find the faults")
    parser.add_argument(
        "--only", nargs="+", choices=[*TESTS], default=[*TESTS], metavar="ROOM", help="only faults in these rooms"
    )
    parser.add_argument("--output", type=Path, help="file for the results as JSON")
    args = parser.parse_args()
    results = []
    table = Table("room", "fault", "found by", "s", title=f"eleven faults, {args.commit}")
    with tempfile.TemporaryDirectory(prefix="faults-", dir=ROOT.parent) as folder:
        archive = subprocess.run(["git", "archive", args.commit], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for fault in FAULTS:
            if fault.room in args.only:
                result = {"room": fault.room, "fault": fault.meaning} | put(fault, Path(folder))
                results.append(result)
                table.add_row(fault.room, fault.meaning, result["found_by"] or "nothing", f"{result['seconds']:.0f}")
                print(json.dumps(result), flush=True)
    Console().print(table)
    if args.output:
        args.output.write_text(json.dumps(results, indent=2))
    sys.exit(any(result["found_by"] is None for result in results))


def put(fault: Fault, folder: Path) -> dict:
    """The test that finds a fault, and after how many seconds."""
    path = folder / "trl_mle" / fault.file
    source = path.read_text()
    if source.count(fault.old) != 1:
        sys.exit(
            f"faults.py: error: {fault.old!r} occurs {source.count(fault.old)} times in {fault.file}: update the fault"
        )
    path.write_text(source.replace(fault.old, fault.new))
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--durations=0", *TESTS[fault.room]],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(source)
    seconds = time.monotonic() - began
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode not in (0, 1) or bool(failed) != bool(done.returncode):
        sys.exit(
            f"faults.py: error: the tests of {fault.room} did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return {"found_by": failed[0] if failed else None, "seconds": seconds}


if __name__ == "__main__":
    main()
