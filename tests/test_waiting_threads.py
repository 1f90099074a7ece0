"""Threads of torch that wait for each other leave the cores to others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trl_mle


NAMES = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"


@pytest.mark.parametrize(
    ("set_by_user", "found"),
    [({}, "10000 None"), ({"GOMP_SPINCOUNT": "5"}, "5 None"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None ACTIVE")],
)
def test_they_hardly_spin_unless_the_user_wants_it(set_by_user, found):
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= {"PYTHONPATH": str(Path(trl_mle.__file__).parents[1])} | set_by_user
    code = f"import os, sys, trl_mle; print(*map(os.environ.get, {NAMES}), 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.split() == [*found.split(), "False"]
