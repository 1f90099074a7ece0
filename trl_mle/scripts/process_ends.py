"""How launched processes end. Imports nothing heavy, because it runs before everything else."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def die_with_launcher() -> None:
    """Leaves no process behind: the kernel ends the workers of a launcher that is killed."""
    libc, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
    if "ACCELERATE_MIXED_PRECISION" in os.environ or "LOCAL_RANK" in os.environ:  # set by every launcher
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def leave(signum: int, frame: object) -> None:
        libc.prctl(PR_SET_PDEATHSIG, 0)  # the launcher may be gone before the executor has cleaned up
        line = f"{Path(sys.argv[0]).name}: stopped by {signal.Signals(signum).name}; resume_from_checkpoint goes on"
        os.write(2, f"\n{line} from the last checkpoint, if there is one\n".encode())
        sys.exit(128 + signum)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, leave)


def run_until_we_end(command: list[str], **options: Any) -> int:
    """Runs a command that ends when this process ends, for any reason; takes options of [`subprocess.run`]."""
    libc, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
    return subprocess.run(
        command, **options, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    ).returncode
