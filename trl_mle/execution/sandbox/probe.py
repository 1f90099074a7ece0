"""The proof that a sandbox isolates: a program that tries forbidden actions."""

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trl_mle.execution.sandbox.error import SandboxError


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
tries("tcp", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=1))
tries("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
tries("data", lambda: open("input/probe", "w"))
tries("system", lambda: open("/usr/probe", "w"))
tries("environment", lambda: open("/proc/{victim}/environ").read().index({secret!r}))
tries("root", lambda: os.setuid(0))
try:
    os.kill({victim}, 9)  # whether it died is seen outside
except OSError:
    pass
print("checked" if os.getuid() else "root")
"""


@contextlib.contextmanager
def make_probe(run_dir: Path) -> Iterator[tuple[str, Path]]:
    """
    The program and its public folder, beside all that it tries to reach.

    Args:
        run_dir (`Path`):
            The executor's own folder.

    Raises:
        `SandboxError`: It killed another process.
    """
    folder = Path(tempfile.mkdtemp(dir=run_dir))
    public, secret = folder / "public", folder / "private" / "labels.csv"
    public.mkdir()
    secret.parent.mkdir()
    secret.write_text("secret")
    for path in (folder, public, secret.parent, secret):
        path.chmod(0o755)
    victim = subprocess.Popen(["sleep", "30"], env={"PATH": os.defpath, "SECRET": str(secret)})
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            yield PROBE.format(secret=str(secret), port=port, victim=victim.pid), public
        if victim.poll() is not None:
            raise SandboxError("it does not isolate programs here: one killed another process")
    finally:
        victim.kill()
        victim.wait()
