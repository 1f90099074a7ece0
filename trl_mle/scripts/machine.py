"""What a machine can train, for `trl-mle doctor`."""

from collections.abc import Sequence
from importlib.util import find_spec

import psutil


def facts() -> list[tuple[str, str]]:
    """GPUs, memory, vLLM, and the recipe that fits; imports torch."""
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    has_vllm = find_spec("vllm") is not None
    memory = psutil.virtual_memory()
    found = [(gpu.name, gpu.total_memory) for gpu in gpus]
    return [
        ("GPU", ", ".join(f"{name} ({size / 1e9:.0f} GB)" for name, size in found) or "none that torch can use"),
        (
            "memory",
            f"{memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB free, {len(psutil.Process().cpu_affinity())} cores",
        ),
        ("vLLM", "installed" if has_vllm else "not installed: pip install 'trl-mle[vllm]' (for GPUs)"),
        ("train with", recipe([size for _, size in found])),
    ]


def recipe(gpus: Sequence[int]) -> str:
    """
    The command that fits GPUs with this memory in bytes, and how long it takes where that was measured (docs/quickstart.md and
    docs/pretrained.md).
    """
    smallest = min(gpus, default=0)
    if smallest < 22e9:
        return (
            "trl-mle quickstart (a tiny policy, 5 to 10 minutes on two cores), or with --model MODEL a pretrained one (0.5B: an hour or "
            "two on one core)"
        )
    name = "hardware/1x80gb" if smallest >= 75e9 else "hardware/1x24gb"
    if len(gpus) >= 8 and smallest >= 38e9:
        name = "qwen2.5-3b-instruct/<competition> --accelerate_config zero3"
    elif len(gpus) > 1:
        name += " --accelerate_config ddp"
    return f"trl-mle train --config {name} (never timed on a GPU)"
