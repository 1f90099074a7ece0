"""Each program in `hostile/` tries something that none may do, in every tier that this machine has. Its first lines say
what it tries and how it may end; for whatever it gets all the same it prints LOOT."""

import contextlib
import hashlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest
from tiers import TIERS

from trl_mle.competitions import Competition
from trl_mle.execution import ExecutionResult, LocalExecutor, Outcome
from trl_mle.execution.sandbox import FIRST_SLOT_UID, SANDBOX_UID


PROGRAMS = sorted(Path(__file__).with_name("hostile").glob("*.py"))
UIDS = {SANDBOX_UID, *range(FIRST_SLOT_UID, 65000)}  # of programs that root started

PRELUDE = """
import os
def attempt(name, action):
    try:
        got = action()
    except Exception as error:
        print("failed", name, type(error).__name__)
    else:
        print("LOOT", name, repr(got)[:200])
"""


def contents(folder: Path) -> dict[str, tuple]:
    return {
        str(path): (path.stat().st_mode, path.stat().st_mtime_ns, path.is_file() and hashlib.sha256(path.read_bytes()).digest())
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


def orphans() -> set[int]:
    """Processes of programs that no executor looks after any more."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            ancestors = [process, *process.parents()]
            kept = [ancestor for ancestor in ancestors if ancestor.uids().real not in UIDS]
            if len(kept) < len(ancestors) and kept[0].pid in (0, 1):
                found.add(process.pid)
    return found


def traces() -> tuple:
    """What a run could leave on the machine."""
    return (
        orphans(),
        {child.pid for child in psutil.Process().children(recursive=True)},
        Path("/proc/self/mountinfo").read_text(),
        sorted(os.listdir("/dev/shm")),
        [Path(f"/proc/sysvipc/{kind}").read_text() for kind in ("shm", "msg", "sem")],
    )


@pytest.fixture(scope="module", params=TIERS)
def futures(request, competition: Competition) -> Iterator[dict[str, Future[ExecutionResult]]]:
    """The results of all programs, run side by side; afterwards nothing is left of them."""
    folder = competition.public_dir.parent
    before, before_folder, descriptors = traces(), contents(folder), psutil.Process().num_fds()
    limits = {
        "timeout_s": 10,
        "memory_mb": 1024,
        "disk_mb": 64,
        "submission_mb": 8,
        "output_kb": 64,
        "max_processes": 64,
    }
    unix = Path(f"/tmp/trl_mle-test-{os.getpid()}")
    with (
        LocalExecutor(max_parallel=2, sandbox=request.param, **limits) as executor,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as in_folder,
    ):
        run_dir = executor._run_dir
        abstract.bind(f"\0{unix.name}")
        abstract.listen()
        in_folder.bind(str(unix))
        in_folder.listen()
        unix.chmod(0o777)
        values = {
            "private": folder / "private", "caller": os.getpid(), "port": server.getsockname()[1],
            "abstract": unix.name, "unix": unix, "venv": sys.prefix.split("/")[1], "base": sys.base_prefix.split("/")[1],
        }  # fmt: skip
        submitted = {}
        for path in PROGRAMS:
            program = re.sub("@([a-z]+)@", lambda match: str(values[match[1]]), path.read_text())
            submitted[path.stem] = executor.submit(PRELUDE + program, competition)
        submitted["tier"] = request.param
        yield submitted
        unix.unlink()
    assert not run_dir.exists()
    assert traces() == before
    assert contents(folder) == before_folder
    assert psutil.Process().num_fds() <= descriptors


@pytest.mark.parametrize("name", [path.stem for path in PROGRAMS])
def test_a_hostile_program_gets_nothing(futures, name):
    result = futures[name].result()
    text = (Path(__file__).with_name("hostile") / f"{name}.py").read_text()
    ends = dict(
        ([tier.strip() for tier in reversed(part.split(":"))] if ":" in part else (part.strip(), "any"))[::-1]
        for part in re.search("^# ends: (.*)$", text, re.MULTILINE)[1].split(";")
    )
    expected = ends.get(futures["tier"], ends["any"]).split(", ")
    seen = f"{result.outcome} ({result.detail})\n{result.stdout}\n{result.stderr}"
    assert result.outcome in expected, seen
    assert "LOOT" not in result.stdout, seen
    assert result.stdout.count("failed ") >= min(1, text.count("attempt(")), seen
    assert "Traceback" not in result.stderr or result.outcome is not Outcome.OK, seen
    if submission := re.search("^# submission: (.*)$", text, re.MULTILINE):
        assert (result.submission or b"none").decode().strip() == submission[1]
