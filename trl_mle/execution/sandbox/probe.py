"""The proof that a sandbox isolates: a program that tries forbidden actions."""

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trl_mle.execution.sandbox.error import CheckUnfinished
from trl_mle.execution.sandbox.inputs import Input, Inputs


# Forbidden actions. Prints one word per success; no output means isolation.
PROBE = """
import os, socket
def tries(name, action):
    try:
        action()
    except (OSError, ValueError):
        return
    print(name)
tries("labels", lambda: open({secret!r}).read())
tries("tcp", lambda: socket.create_connection(("127.0.0.1", {port})))
tries("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
for folder in {others!r}:
    tries("data of another competition", lambda: open(folder + "/train.csv").read())
tries("names of other competitions", lambda: os.listdir({inputs!r}).index({other!r}))
tries("data", lambda: open("input/probe", "w"))
tries("system", lambda: open("/usr/probe", "w"))
tries("environment", lambda: open("/proc/{victim}/environ").read().index({secret!r}))
tries("root", lambda: os.setuid(0))
tries("kill", lambda: os.kill({victim}, 9))
print("checked" if os.getuid() else "root")
"""


@contextlib.contextmanager
def make_probe(run_dir: Path, inputs: Inputs) -> Iterator[tuple[str, Input]]:
    """Yields the program and its input, and keeps everything that it tries to reach. Raises `CheckUnfinished` if the
    process that it tries to signal has ended."""
    folder = Path(tempfile.mkdtemp(dir=run_dir))
    public, data, secret = folder / "public", folder / "other" / "train.csv", folder / "private" / "labels.csv"
    public.mkdir()
    for path in (data, secret):
        path.parent.mkdir()
        path.write_text("secret")
    for path in (folder, public, data.parent, data, secret.parent, secret):
        path.chmod(0o755)
    # Runs until this process closes the pipe, or ends
    victim = subprocess.Popen(
        ["cat"], env={"PATH": os.defpath, "SECRET": str(secret)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            inputs.use(public) as input_,
            inputs.use(data.parent) as other,
        ):
            program = PROBE.format(
                secret=str(secret),
                port=server.getsockname()[1],
                victim=victim.pid,
                others=[str(other.folder), other.job["input"]],
                inputs=os.path.dirname(other.job["input"]),
                other=other.folder.name,
            )
            yield program, input_
        if victim.poll() is not None:
            raise CheckUnfinished(f"the process that the check tries to reach ended with {victim.returncode}")
    finally:
        victim.kill()
        victim.communicate()
