"""The error for programs that cannot be isolated."""


class SandboxError(RuntimeError):
    """Programs cannot be isolated on this machine, or lack promised packages: a reason, and maybe a remedy."""

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class CheckUnfinished(SandboxError):
    """A check was interrupted, or this machine is too busy: it is unknown whether the sandbox works."""

    def __init__(self, reason: str):
        super().__init__(reason, "Try again when this machine is less busy")
