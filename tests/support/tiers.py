"""The tiers of the sandbox; those that this machine's kernel does not support are skipped."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from trl_mle.competitions import Competition
from trl_mle.execution import ExecutionResult, LocalExecutor, SandboxError, sandbox
from trl_mle.execution.sandbox.bubblewrap import Bubblewrap
from trl_mle.execution.sandbox.landlock import Landlock


def needs(tier: type[sandbox.Tier]) -> pytest.MarkDecorator:
    """Skips a test where the machine lacks the tier's requirements."""
    try:
        tier().check_available()
    except SandboxError as error:
        return pytest.mark.skipif(True, reason=f"{tier.name} does not work here: {error}")
    return pytest.mark.skipif(False, reason="")


LANDLOCK = needs(Landlock)
TIERS = [  # the tests need bubblewrap
    tier.name if tier is Bubblewrap else pytest.param(tier.name, marks=needs(tier)) for tier in sandbox.TIERS
]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="before Linux 6.12 Landlock isolates only what root starts")


def run_all(competition: Competition, *programs: str, **options) -> list[ExecutionResult]:
    """The results of programs in an executor of their own, one after the other unless the options say otherwise."""
    with LocalExecutor(**({"max_parallel": 1, "timeout_s": 30, "packages": ()} | options)) as executor:
        return executor.run_many([(program, competition) for program in programs])


@contextlib.contextmanager
def early_landlock(abi: int) -> Iterator[None]:
    """Makes the sandbox use no more of this kernel's Landlock than kernels with this ABI have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: abi)
        yield
