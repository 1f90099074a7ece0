import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest
from support.tiers import run_all

from trl_mle.execution import Outcome, cgroups
from trl_mle.execution.folders import hold, make_run_dir, remove_run_dir


NEEDS_GROUPS = pytest.mark.skipif(not cgroups.parents(), reason="control groups cannot be created here")
JOIN = "import os, sys\nfor fd in map(int, sys.argv[1:]): os.write(fd, b'0')\n"


@pytest.fixture
def group():
    run_dir, lock = make_run_dir()
    [group] = cgroups.make_groups(run_dir, 1, memory_mb=64, max_processes=8)
    yield group
    remove_run_dir(run_dir)
    os.close(lock)
    assert not any(folder.exists() for folder in group.folders)


def run_inside(group, source):
    with ExitStack() as closing:
        procs = group.open(closing)[: len(group.folders)]
        return subprocess.run(
            [sys.executable, "-c", JOIN + source, *map(str, procs)], pass_fds=procs, capture_output=True, text=True
        )


@NEEDS_GROUPS
def test_the_kernel_bounds_memory_and_counts_its_kills(group):
    assert run_inside(group, "print(len(bytearray(32 << 20)))").stdout.strip() == str(32 << 20)
    assert not group.over_memory()
    assert run_inside(group, "bytearray(256 << 20)").returncode == -signal.SIGKILL
    assert group.over_memory()


@NEEDS_GROUPS
def test_a_program_dies_with_the_highest_share_of_the_cores_and_the_next_starts_with_the_usual_one(group):
    if not group.highest_weight:
        pytest.skip("the cpu controller is not available")
    [weight] = [folder / file for folder in group.folders for file in cgroups.WEIGHTS if (folder / file).exists()]
    with ExitStack() as closing:
        first = group.open(closing)
        usual = weight.read_text()
        os.write(first[-1], group.highest_weight.encode())
        assert int(weight.read_text()) == int(group.highest_weight) > 50 * int(usual)
        group.open(closing)
    assert weight.read_text() == usual


@NEEDS_GROUPS
def test_a_program_whose_child_was_killed_for_memory_is_out_of_memory(competition):
    # Each process is within the address-space limit, but together they exceed it before the next look at their memory.
    program = """
import os, sys
children = []
for _ in range(8):
    if (pid := os.fork()) == 0:
        block = bytearray(200 << 20)
        os._exit(0)
    children.append(pid)
statuses = [os.waitpid(pid, 0)[1] for pid in children]
sys.exit(any(statuses))
"""
    result, after = run_all(competition, program, "print('fine')", memory_mb=512, disk_mb=1)
    assert result.outcome is Outcome.OUT_OF_MEMORY, result
    assert after.outcome is Outcome.OK


def start_another() -> None:
    another, lock = make_run_dir()
    remove_run_dir(another)
    os.close(lock)


@NEEDS_GROUPS
def test_groups_of_a_killed_executor_end_at_the_next_start_from_another_session(monkeypatch):
    """Which has other parents; and not before the last process of a group has ended."""
    sessions = [parent / f"trl_mle_test_session_{os.getpid()}" for parent in cgroups.parents()]
    for session in sessions:
        session.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(cgroups, "parents", lambda: sessions)
        run_dir, lock = make_run_dir()
        groups = cgroups.make_groups(run_dir, 2, memory_mb=64, max_processes=8)
    last = subprocess.Popen(["sleep", "60"])
    for folder in groups[1].folders:
        (folder / "cgroup.procs").write_text(str(last.pid))
    folders = [folder for group in groups for folder in group.folders]
    assert all(folder.exists() for folder in folders)
    os.close(lock)  # as its end does

    start_another()
    assert [folder.exists() for folder in groups[1].folders] == [True] * len(sessions)
    last.kill()
    last.wait()
    start_another()
    assert not any(folder.exists() for folder in folders)
    assert not run_dir.exists()
    for session in sessions:
        session.rmdir()


def test_only_folders_of_this_users_dead_executors_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.folders.TMP", tmp_path)
    dead, alive, others = (tmp_path / f"trl_mle-run-{name}" for name in ("dead", "alive", "others"))
    for folder in (dead, alive):
        folder.mkdir()
    others.symlink_to(tmp_path)  # in /tmp, another user may have made anything
    held = hold(alive)
    run_dir, lock = make_run_dir()
    assert sorted(tmp_path.iterdir()) == sorted([alive, others, run_dir])
    os.close(held)
    os.close(lock)
