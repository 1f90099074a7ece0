"""Builds the executor from a command's arguments."""

import os
from dataclasses import dataclass, field
from typing import Any

from trl_mle import execution


@dataclass(kw_only=True)
class ExecutorArguments:
    """The options of every command that runs programs; see their help."""

    program_timeout_s: float = field(default=60.0, metadata={"help": "Wall-clock limit of a program, in seconds."})
    program_memory_mb: int = field(default=4096, metadata={"help": "Memory limit of a program, in MB."})
    max_parallel_programs: int | None = field(
        default=None,
        metadata={"help": "Programs to run at a time on one machine; defaults to as many as the cores allow."},
    )
    threads_per_program: int = field(default=1, metadata={"help": "Cores per program."})
    gpu_slots: list[str] = field(
        default_factory=list,
        metadata={"help": "GPUs for programs, one per running program, as in `CUDA_VISIBLE_DEVICES`."},
    )
    sandbox: str = field(
        default="auto", metadata={"help": "`auto`, `bubblewrap`, `landlock`, or `none` for no isolation."}
    )
    program_python: str | None = field(
        default=None,
        metadata={
            "help": "Interpreter that runs the programs, with its environment's packages; defaults to this one."
        },
    )
    ray_address: str | None = field(
        default=None, metadata={"help": "Address of a Ray cluster to run the programs on, or `auto`."}
    )
    reuse_results: str | None = field(
        default=None,
        metadata={
            "help": "Run equal programs once: `run` for once in this output_dir, or a file to share between runs, created if missing. By "
            "default, every program runs."
        },
    )


def make_executor(args: ExecutorArguments, training_cores: int = 0) -> execution.Executor:
    """
    Builds the executor: this machine, or a Ray cluster if one is named. With Ray, any GPU slot requests one of Ray's
    GPUs per program.

    Args:
        args ([`ExecutorArguments`]):
            The arguments.
        training_cores (`int`, *optional*, defaults to `0`):
            Cores of this machine that programs leave to training.

    Raises:
        `ValueError`: No program could run, or `training_cores` is set with Ray.
        [`SandboxError`]: Programs cannot be isolated.
    """
    for name in ("program_timeout_s", "program_memory_mb", "threads_per_program"):
        if getattr(args, name) <= 0:
            raise ValueError(f"{name} must be positive, got {getattr(args, name)}")
    options: dict[str, Any] = {
        "timeout_s": args.program_timeout_s,
        "memory_mb": args.program_memory_mb,
        "max_parallel": args.max_parallel_programs,
        "threads_per_program": args.threads_per_program,
        "sandbox": args.sandbox,
        "python": os.path.abspath(os.path.expanduser(args.program_python)) if args.program_python else None,
    }
    if args.ray_address:
        if training_cores:  # its workers are not this process's, and most of their machines do not train
            raise ValueError(
                "training_cores has no effect on Ray's workers: leave it out, and start Ray on the training machine with "
                "taskset and --num-cpus"
            )
        return execution.RayExecutor(args.ray_address, num_gpus=bool(args.gpu_slots), **options)
    return execution.LocalExecutor(gpus=args.gpu_slots, training_cores=training_cores, **options)
