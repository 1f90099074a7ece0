"""RL for machine-learning engineering agents, on top of TRL (https://huggingface.co/papers/2509.01684)."""

import os


# Otherwise torch's threads spin while they wait for each other: on cores that others use, a hundred times as long.
# OpenMP reads the variable when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.2.0"
