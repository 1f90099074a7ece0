"""Δt and limits, while the clock of the machine is set to another time again and again."""

import itertools
import subprocess
import sys
import sysconfig
import time

import pytest

from trl_mle.execution import LocalExecutor, Outcome


# Each look at the clock finds it an hour later
JUMPS = """
import itertools, time
own, hours = time.time, itertools.count()
time.time = lambda: own() + 3600 * next(hours)
"""
SLEEPS = "import time\ntime.sleep({})\nprint(-time.time() + time.time() > 3000)\n"


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Of executors whose interpreter has the packages of this one and a clock that jumps, for init as well."""
    folder = tmp_path_factory.mktemp("clock")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "jumps.py").write_text(JUMPS)
    (packages / "jumps.pth").write_text(f"import jumps\n{sysconfig.get_paths()['purelib']}\n")
    options = {"sandbox": "none", "python": str(folder / "bin" / "python"), "packages": ()}
    with LocalExecutor(1, timeout_s=120, **options) as executor:
        assert executor.limits.packages  # looked up once, which takes longer than the programs below may
    return options


def test_durations_and_limits_do_not_follow_a_clock_that_jumps(competition, options, monkeypatch):
    own, hours = time.time, itertools.count()
    monkeypatch.setattr("time.time", lambda: own() + 3600 * next(hours))  # and in the caller
    with LocalExecutor(2, timeout_s=3, **options) as executor:
        began = time.monotonic()
        short, long = executor.run_many([(SLEEPS.format(seconds), competition) for seconds in (0.5, 60)])
        passed = time.monotonic() - began
    assert (short.outcome, short.stdout) == (Outcome.OK, "True\n"), short
    assert 0.5 <= short.duration_s < 3
    assert long.outcome is Outcome.TIMEOUT, long
    assert 3 <= long.duration_s < 30
    assert all(0 <= result.queue_wait_s <= passed for result in (short, long))
