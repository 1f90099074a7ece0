"""
Kills a training run with SIGKILL at random moments: is anything left of its programs, or of its folders after the next
start?

    python benchmarks/kill_trainer.py --model outputs/quickstart/starter --times 50
"""

import argparse
import fcntl
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console

from trl_mle.execution import LocalExecutor


def is_held(lock: Path) -> bool:
    """Whether the executor that created this file is alive: other runs on this machine have folders, too."""
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--times", type=int, default=50)
    args = parser.parse_args()
    console = Console()
    rng = random.Random(0)
    executing = 0
    for number in range(1, args.times + 1):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, "recipes/train_mle.py", "--config", "recipes/quickstart.yaml", "--model_name_or_path", args.model,
                "--output_dir", folder, "--max_steps", "1000", "--save_strategy", "no",
            ]  # fmt: skip
            trainer = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not list(Path(folder).glob("executions/*")) and trainer.is_running():
                time.sleep(0.05)  # until the first program has run
            time.sleep(rng.uniform(0.0, 5.0))
            family = trainer.children(recursive=True)
            executing += len(family) > 3  # more than the warm parent: a program runs
            trainer.kill()
            trainer.wait()
            _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive, alive
        with LocalExecutor(max_parallel=1):
            left = [path for path in Path("/tmp").glob("trl_mle-*/lock") if not is_held(path)]
        assert not left, left
        console.print(f"{number}/{args.times}: {len(family)} processes gone, no folder left", highlight=False)
    console.print(f"{args.times} kills, {executing} of them while programs ran: no process and no folder was left")


if __name__ == "__main__":
    main()
