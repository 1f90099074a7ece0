"""Threads of torch that wait for each other leave the cores to others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trl_mle


@pytest.mark.parametrize(("set_by_user", "found"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_they_do_not_spin_unless_the_user_wants_it(set_by_user, found):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"PYTHONPATH": str(Path(trl_mle.__file__).parents[1])} | set_by_user
    code = "import os, sys, trl_mle; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.split() == [found, "False"]
