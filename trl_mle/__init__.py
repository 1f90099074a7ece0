"""RL for machine-learning engineering agents, on top of TRL (https://huggingface.co/papers/2509.01684)."""

import os


# Threads of torch spin for less long before they sleep; OpenMP reads the variable when torch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = "0.2.0"
