"""The tiers of the sandbox; those that this machine's kernel does not support are skipped."""

import pytest

from trl_mle.execution.inside.kernel import landlock_abi


LANDLOCK = pytest.mark.skipif(landlock_abi() < 6, reason="this kernel's Landlock is too old")
TIERS = ["bubblewrap", pytest.param("landlock", marks=LANDLOCK)]
