"""The options of commands that run programs, and the executor that they ask for."""

import math
import os
from dataclasses import dataclass, field
from typing import Any

from trl_mle import execution
from trl_mle.execution.sandbox import TIERS
from trl_mle.user_code import import_named


# What the outcome of a program depends on: work with other values is not resumed
OF_A_PROGRAM = ("program_timeout_s", "program_memory_mb", "threads_per_program", "program_python", "executor")


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field of options, with its help; each instance has a list of its own."""
    metadata = {"help": text} | metadata
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class ExecutorArguments:
    """The options of every command that runs programs; see their help."""

    program_timeout_s: float = option(60.0, "Wall-clock limit of a program, in seconds.")
    program_memory_mb: int = option(4096, "Memory limit of a program, in MB.")
    max_parallel_programs: int | None = option(
        None, "Programs at a time on one machine; defaults to as many as the cores allow."
    )
    threads_per_program: int = option(1, "Cores per program.")
    gpu_slots: list[str] = option([], "GPUs for programs, one per running program, as in `CUDA_VISIBLE_DEVICES`.")
    sandbox: str = option(
        "auto", f"`auto`, {', '.join(f'`{tier.name}`' for tier in TIERS)}, or `none` for no isolation."
    )
    program_python: str | None = option(None, "Interpreter of the programs, with its packages; defaults to this one.")
    ray_address: str | None = option(None, "Address of a Ray cluster to run the programs on, or `auto`.")
    executor: str | None = option(
        None, "Your own `trl_mle.execution.Executor`, as a dotted path, such as `my_module.MyExecutor`."
    )
    reuse_results: bool = option(False, "Run equal programs only once.")


def make_executor(args: ExecutorArguments, training_cores: int = 0, preload: bool = True) -> execution.Executor:
    """Builds the executor of this machine, Ray's if a cluster is named, or the user's own; with Ray, any GPU slot
    requests one of its GPUs per program. Without `preload`, packages are imported by programs alone. Raises
    `ValueError` or [`SandboxError`] if no program could run."""
    for name in ("program_timeout_s", "program_memory_mb", "threads_per_program"):
        if not 0 < getattr(args, name) < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {getattr(args, name)}")
    if args.max_parallel_programs is not None and args.max_parallel_programs < 1:
        raise ValueError(f"max_parallel_programs must be at least 1, got {args.max_parallel_programs}")
    if args.executor is not None and args.ray_address:
        raise ValueError(f"executor: {args.executor} runs the programs, and so does ray_address: leave one out")
    kind: Any = execution.LocalExecutor
    if args.ray_address:
        kind = import_named(
            "ray_address, which needs pip install 'trl-mle[ray]'", "trl_mle.execution.ray_executor.RayExecutor"
        )
    elif args.executor is not None:
        kind = import_named("executor", args.executor)
        if not isinstance(kind, type) or not issubclass(kind, execution.Executor):
            raise ValueError(f"executor: {args.executor} is not a subclass of trl_mle.execution.Executor")
    if training_cores and not kind.is_local:
        raise ValueError(f"training_cores has no effect on {kind.__name__}: leave it out")
    options: dict[str, Any] = {
        "timeout_s": args.program_timeout_s,
        "memory_mb": args.program_memory_mb,
        "threads_per_program": args.threads_per_program,
        "max_parallel": args.max_parallel_programs,
    }
    optional = {
        "sandbox": args.sandbox if args.sandbox != "auto" else None,
        "python": args.program_python and os.path.abspath(os.path.expanduser(args.program_python)),
        "gpus": args.gpu_slots,
        "training_cores": training_cores,
    }
    options |= {name: value for name, value in optional.items() if value}
    if kind is execution.LocalExecutor and not preload:
        options["packages"] = ()
    if args.ray_address:
        return kind(args.ray_address, num_gpus=bool(options.pop("gpus", ())), **options)
    return kind(**options)
