"""Fixtures of the evaluation's tests: programs really run, one at a time."""

import pytest

from trl_mle.execution import LocalExecutor


@pytest.fixture(scope="package")
def executor():
    """Shared, because it takes longer to start than most programs take to run."""
    with LocalExecutor(max_parallel=1, timeout_s=60, memory_mb=4096) as executor:
        yield executor
