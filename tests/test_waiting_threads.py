"""Threads of torch that wait for each other leave the cores to others."""

import os
import subprocess
import sys
from pathlib import Path

import trl_mle


def test_they_hardly_spin_unless_the_user_wants_it():
    names = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
    code = f"import os, sys, trl_mle; print(*map(os.environ.get, {names}), 'torch' in sys.modules)"
    for by_user, expected in (({}, "10000 None False"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None ACTIVE False")):
        environment = {name: value for name, value in os.environ.items() if name not in names}
        environment |= {"PYTHONPATH": str(Path(trl_mle.__file__).parents[1])} | by_user
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert run.stdout.strip() == expected
