"""The error for programs that cannot be isolated."""

REMEDY = (
    "Install bubblewrap (`apt-get install bubblewrap`) and allow it user namespaces and mounts, which containers often "
    "forbid (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN) and Ubuntu "
    "24.04 restricts (sysctl kernel.apparmor_restrict_unprivileged_userns=0); or use Linux 6.12 or newer (as root, 5.13) with Landlock; "
    "or run programs with sandbox='none', which gives them every right that you have"
)


class SandboxError(RuntimeError):
    """
    Programs cannot be isolated on this machine, or lack promised packages; the message says what to install.

    Args:
        reason (`str`):
            The problem.
        remedy (`str`, *optional*, defaults to `""`):
            How to fix it.
    """

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class CheckUnfinished(SandboxError):
    """A check did not end, because this machine is too busy or something ended it: the sandbox may work or not."""

    def __init__(self, reason: str):
        super().__init__(reason, "Try again when this machine is less busy")
