"""The tiers of the sandbox; those that this machine's kernel does not support are skipped."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from trl_mle.execution.sandbox import SandboxError, landlock


def landlock_works() -> bool:
    try:
        landlock.check_available()
    except SandboxError:
        return False
    return True


LANDLOCK = pytest.mark.skipif(not landlock_works(), reason="this kernel's Landlock is missing or too old")
TIERS = ["bubblewrap", pytest.param("landlock", marks=LANDLOCK)]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="before Linux 6.12 Landlock isolates only what root starts")


@contextlib.contextmanager
def early_landlock(abi: int) -> Iterator[None]:
    """Makes the sandbox use no more of this kernel's Landlock than kernels with this ABI have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trl_mle.execution.inside.kernel.landlock_abi", lambda: abi)
        yield
