"""An untrusted program in, an [`ExecutionResult`] out."""

from trl_mle.execution.executor import ExecutionResult, Executor, LocalExecutor, Outcome
from trl_mle.execution.sandbox import SandboxError


__all__ = ["ExecutionResult", "Executor", "LocalExecutor", "Outcome", "SandboxError"]
