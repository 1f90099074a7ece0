"""How a launched process ends. Nothing heavy is imported: it is called before anything else is."""

import ctypes
import os
import signal
import sys
from pathlib import Path


def die_with_launcher() -> None:
    """Leave no process behind, however the run ends."""
    # A launcher that is killed itself (SIGKILL, out of memory) cannot end its workers: the orphans would hold their
    # memory and go on executing programs. So the kernel ends them.
    libc, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
    if "ACCELERATE_MIXED_PRECISION" in os.environ or "LOCAL_RANK" in os.environ:  # set by every launcher
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def leave(signum: int, frame: object) -> None:
        libc.prctl(PR_SET_PDEATHSIG, 0)  # the launcher may be gone before the executor has cleaned up
        os.write(2, f"\n{Path(sys.argv[0]).name}: stopped by {signal.Signals(signum).name}\n".encode())
        sys.exit(128 + signum)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, leave)
