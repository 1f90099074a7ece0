"""Isolation of untrusted programs, and the check that it works.

The tiers document their guarantees: `bubblewrap.py`, the strongest, and `landlock.py`. In the tier `"none"`, for
programs that you trust, a program can access everything that the calling user can. Limits, timeouts and the end of the
whole process tree still apply.
"""

import logging
import os
from pathlib import Path

from trl_mle.execution import inside
from trl_mle.execution.sandbox import bubblewrap, landlock
from trl_mle.execution.sandbox.environment import IMPORTS, PACKAGES, environment_variables, home_environment, identity
from trl_mle.execution.sandbox.error import REMEDY, CheckUnfinished, SandboxError
from trl_mle.execution.sandbox.interpreter import Interpreter, find_interpreter
from trl_mle.execution.sandbox.probe import make_probe
from trl_mle.execution.sandbox.seccomp import seccomp_filter


__all__ = [
    "IMPORTS",
    "PACKAGES",
    "REMEDY",
    "TIERS",
    "CheckUnfinished",
    "Interpreter",
    "SandboxError",
    "candidate_tiers",
    "check_available",
    "environment_variables",
    "find_interpreter",
    "home_environment",
    "identity",
    "make_probe",
    "seccomp_filter",
    "warm_parent_command",
]

logger = logging.getLogger(__name__)

TIERS = ("bubblewrap", "landlock")  # the strongest first


def candidate_tiers(sandbox: str) -> list[str]:
    """
    Args:
        sandbox (`str`):
            `"auto"`, the strongest tier that works on this machine; or the name of one.

    Returns:
        `list[str]`: Tiers to try, the strongest first.

    Raises:
        `SandboxError`: There is no such tier.
    """
    if sandbox == "auto":
        return list(TIERS)
    if sandbox == "none":
        logger.warning(
            "sandbox='none': the model's programs run with all rights of this user, network and files included"
        )
    elif sandbox not in TIERS:
        raise SandboxError(
            f"sandbox={sandbox!r} is not known: use 'auto', 'bubblewrap', 'landlock', or 'none' to run programs without "
            f"isolation"
        )
    return [sandbox]


def check_available(tier: str) -> None:
    """Raises `SandboxError` if this machine lacks the requirements of a tier."""
    if tier == "bubblewrap":
        bubblewrap.check_available()
    elif tier == "landlock":
        landlock.check_available()


def warm_parent_command(
    tier: str, control_fd: int, public_dir: Path, folder: Path, gpus: bool, python: Interpreter
) -> list[str]:
    """The command line that starts the warm parent for one competition; see `bubblewrap.command`."""
    if tier == "bubblewrap":
        return bubblewrap.command(control_fd, public_dir, folder, gpus, python)
    main = os.path.join(os.path.dirname(inside.__file__), "__main__.py")
    return [python.executable, "-P", main, str(control_fd)]
