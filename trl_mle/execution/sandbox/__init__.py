"""Isolation of untrusted programs, and the check that it works.

Each tier states its guarantees: `bubblewrap.py`, the strongest, and `landlock.py`; and `NoIsolation` in `tier.py`, for
programs that you trust.
"""

import logging

from trl_mle.execution.sandbox.bubblewrap import Bubblewrap
from trl_mle.execution.sandbox.error import CheckUnfinished, SandboxError
from trl_mle.execution.sandbox.inputs import Input, Inputs
from trl_mle.execution.sandbox.interpreter import Interpreter, find_interpreter
from trl_mle.execution.sandbox.landlock import Landlock
from trl_mle.execution.sandbox.probe import make_probe
from trl_mle.execution.sandbox.program_environment import (
    IMPORTS,
    PACKAGES,
    environment_variables,
    home_environment,
)
from trl_mle.execution.sandbox.seccomp import seccomp_filter
from trl_mle.execution.sandbox.tier import NoIsolation, Tier


__all__ = [
    "IMPORTS",
    "PACKAGES",
    "REMEDY",
    "TIERS",
    "CheckUnfinished",
    "Input",
    "Inputs",
    "Interpreter",
    "SandboxError",
    "Tier",
    "candidate_tiers",
    "environment_variables",
    "find_interpreter",
    "home_environment",
    "make_probe",
    "seccomp_filter",
]

logger = logging.getLogger(__name__)

TIERS: tuple[type[Tier], ...] = (Bubblewrap, Landlock)  # the strongest first
REMEDY = "; or ".join(
    [*(tier.remedy for tier in TIERS), "run programs with sandbox='none', which gives them every right that you have"]
)


def candidate_tiers(sandbox: str) -> list[Tier]:
    """Tiers to try, the strongest first: all for `"auto"`, or the named one. Raises `SandboxError` if there is no such
    tier."""
    if sandbox == "auto":
        return [tier() for tier in TIERS]
    kinds: tuple[type[Tier], ...] = (*TIERS, NoIsolation)
    named = {tier.name: tier for tier in kinds}
    if sandbox not in named:
        *tiers, last = map(repr, ("auto", *named))
        raise SandboxError(
            f"sandbox={sandbox!r} is not known: use {', '.join(tiers)}, or {last} to run programs without isolation"
        )
    tier = named[sandbox]()
    if not tier.isolates:
        logger.warning(
            "sandbox='none': the model's programs run with all rights of this user, network and files included"
        )
    return [tier]
