"""The seed of a vLLM that lives in the training process."""


def sampling_seed(seed: int, process: int, processes: int, tensor_parallel_size: int) -> int:
    """
    What a process seeds its generators with to sample with a vLLM of its own.

    Args:
        seed (`int`):
            The run's.
        process (`int`):
            Number of the process.
        processes (`int`):
            How many there are.
        tensor_parallel_size (`int`):
            How many of them share a vLLM: these must sample the same.

    Returns:
        `int`: Another one for every seed and every vLLM.
    """
    engines = processes // tensor_parallel_size
    return (seed * engines + process // tensor_parallel_size) % 2**32  # NumPy takes no more bits
