"""Δt and limits, while the clock of the machine is set to another time again and again."""

import itertools
import subprocess
import sys
import sysconfig
import time

from trl_mle.execution import LocalExecutor, Outcome


# Each look at the clock finds it an hour later
JUMPS = """
import itertools, time
own, hours = time.time, itertools.count()
time.time = lambda: own() + 3600 * next(hours)
"""
SLEEPS = "import time\ntime.sleep({})\nprint(-time.time() + time.time() > 3000)\n"


def test_durations_and_limits_do_not_follow_a_clock_that_jumps(competition, tmp_path, monkeypatch):
    """The clock of an interpreter that has the packages of this one, which runs init as well, and the caller's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    packages = next(tmp_path.glob("lib/python3*/site-packages"))
    (packages / "jumps.py").write_text(JUMPS)
    (packages / "jumps.pth").write_text(f"import jumps\n{sysconfig.get_paths()['purelib']}\n")
    own, hours = time.time, itertools.count()
    monkeypatch.setattr("time.time", lambda: own() + 3600 * next(hours))
    python = str(tmp_path / "bin" / "python")
    with LocalExecutor(2, timeout_s=3, sandbox="none", python=python, packages=()) as executor:
        began = time.monotonic()
        short, long = executor.run_many([(SLEEPS.format(seconds), competition) for seconds in (0.5, 60)])
        passed = time.monotonic() - began
    assert (short.outcome, short.stdout) == (Outcome.OK, "True\n"), short
    assert 0.5 <= short.duration_s < 3
    assert long.outcome is Outcome.TIMEOUT, long
    assert 3 <= long.duration_s < 30
    assert all(0 <= result.queue_wait_s <= passed for result in (short, long))
