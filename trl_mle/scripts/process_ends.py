"""How launched processes end. Imports nothing heavy, because it runs before everything else."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from trl_mle.option_names import check_device, check_options, is_true
from trl_mle.showing import terminal_line


def die_with_launcher() -> None:
    """Leaves no process behind, however the run ends."""
    # A launcher that is killed (SIGKILL, out of memory) cannot end its workers: the orphans would keep their memory
    # and go on executing programs. So the kernel ends them.
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


def refuse_wrong_options() -> None:
    """Ends a training script in one line, with exit code 2, if its command or its recipe has an option that does not exist, a
    value that it cannot have, or one that this machine has no GPU for."""
    try:
        values = check_options(sys.argv[1:])
        check_device(values)
    except (ValueError, OSError) as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":  # all processes of a machine find the same
            print(terminal_line(f"{Path(sys.argv[0]).name}: error: {error}"), file=sys.stderr)
        sys.exit(2)
    if is_true(values, "--use_cpu"):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # what DeepSpeed would find out, with a warning


def run_until_we_end(command: list[str], **options: Any) -> int:
    """Runs a command that ends when this process ends, for any reason; takes options of [`subprocess.run`]."""
    libc, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
    return subprocess.run(
        command, **options, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    ).returncode
