"""What executes programs, made as a command's arguments ask for it."""

from collections.abc import Sequence
from typing import Any

from trl_mle import execution


# Its parameters: options of every command that runs programs
EXECUTOR_OPTIONS = (
    "program_timeout_s", "program_memory_mb", "max_parallel_programs", "threads_per_program", "gpu_slots", "sandbox",
    "ray_address",
)  # fmt: skip


def make_executor(
    program_timeout_s: float = 60.0,
    program_memory_mb: int = 4096,
    max_parallel_programs: int | None = None,
    threads_per_program: int = 1,
    gpu_slots: Sequence[str] = (),
    sandbox: str = "auto",
    ray_address: str | None = None,
) -> execution.Executor:
    """
    What runs the programs: this machine, or a Ray cluster if one is named.

    Args:
        program_timeout_s (`float`, *optional*, defaults to `60.0`):
            Wall-clock limit of one program, in seconds.
        program_memory_mb (`int`, *optional*, defaults to `4096`):
            Memory limit of one program, in MB.
        max_parallel_programs (`int`, *optional*):
            Programs at a time, on one machine. Defaults to as many as the cores allow.
        threads_per_program (`int`, *optional*, defaults to `1`):
            Cores of one program.
        gpu_slots (`Sequence[str]`, *optional*):
            GPUs for programs, as [`LocalExecutor`] takes them; on a Ray cluster any of them asks for one GPU of Ray's.
        sandbox (`str`, *optional*, defaults to `"auto"`):
            As [`LocalExecutor`] takes it.
        ray_address (`str`, *optional*):
            A Ray cluster, or `"auto"`.

    Raises:
        `ValueError`: No program could run.
        [`SandboxError`]: Programs cannot be isolated.
    """
    limits = {
        "program_timeout_s": program_timeout_s,
        "program_memory_mb": program_memory_mb,
        "threads_per_program": threads_per_program,
    }
    for name, value in limits.items():
        if value <= 0:
            raise ValueError(f"{name} must be positive, got {value}")
    options: dict[str, Any] = {
        "timeout_s": program_timeout_s,
        "memory_mb": program_memory_mb,
        "max_parallel": max_parallel_programs,
        "threads_per_program": threads_per_program,
        "sandbox": sandbox,
    }
    if ray_address:
        return execution.RayExecutor(ray_address, num_gpus=bool(gpu_slots), **options)
    return execution.LocalExecutor(gpus=gpu_slots, **options)
