"""What needs more than one core is skipped where there is one."""

import os

import pytest


SEVERAL_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="training would have the only core")
