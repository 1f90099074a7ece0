"""Isolation of untrusted programs, and the check that it works.

Each tier states its guarantees: `bubblewrap.py`, the strongest, and `landlock.py`; and `NoIsolation` in `tier.py`, for
programs that you trust.
"""

import logging

from trl_mle.execution.sandbox.bubblewrap import Bubblewrap
from trl_mle.execution.sandbox.error import CheckUnfinished, SandboxError
from trl_mle.execution.sandbox.landlock import Landlock
from trl_mle.execution.sandbox.tier import NoIsolation, Tier


__all__ = ["REMEDY", "TIERS", "CheckUnfinished", "SandboxError", "Tier", "candidate_tiers"]

logger = logging.getLogger(__name__)

TIERS: tuple[type[Tier], ...] = (Bubblewrap, Landlock)  # the strongest first
REMEDY = "; or ".join(
    [*(tier.remedy for tier in TIERS), "run programs with sandbox='none', which gives them every right that you have"]
)


def candidate_tiers(sandbox: str) -> list[Tier]:
    """Tiers to try, the strongest first: all for `"auto"`, or the named one. Raises `SandboxError` if there is
    none."""
    if sandbox == "auto":
        return [tier() for tier in TIERS]
    kinds: tuple[type[Tier], ...] = (*TIERS, NoIsolation)
    named = {tier.name: tier for tier in kinds}
    if sandbox not in named:
        raise SandboxError(f"sandbox={sandbox!r} is not known: use one of {', '.join(map(repr, ('auto', *named)))}")
    if named[sandbox] is NoIsolation:
        logger.warning("sandbox='none': the model's programs run with all rights of this user")
    return [named[sandbox]()]
