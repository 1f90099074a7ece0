"""Executes untrusted programs: program → [`ExecutionResult`]."""

from typing import TYPE_CHECKING, Any

from trl_mle.execution.executor import ExecutionResult, Executor, Outcome, ProgramFuture
from trl_mle.execution.local_executor import LocalExecutor
from trl_mle.execution.program import Limits
from trl_mle.execution.sandbox import SandboxError


if TYPE_CHECKING:
    from trl_mle.execution.ray_executor import RayExecutor


__all__ = [
    "ExecutionResult",
    "Executor",
    "Limits",
    "LocalExecutor",
    "Outcome",
    "ProgramFuture",
    "RayExecutor",
    "SandboxError",
]


def __getattr__(name: str) -> Any:
    if name == "RayExecutor":  # Ray is an extra
        try:
            from trl_mle.execution.ray_executor import RayExecutor
        except ModuleNotFoundError as error:
            raise ImportError("RayExecutor needs Ray: pip install 'trl-mle[ray]'") from error
        return RayExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
