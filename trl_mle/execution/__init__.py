"""Executes untrusted programs: program → [`ExecutionResult`]."""

from trl_mle.execution.executor import ExecutionResult, Executor, Outcome, ProgramFuture
from trl_mle.execution.local_executor import LocalExecutor
from trl_mle.execution.program import Limits
from trl_mle.execution.sandbox import SandboxError


__all__ = ["ExecutionResult", "Executor", "Limits", "LocalExecutor", "Outcome", "ProgramFuture", "SandboxError"]
