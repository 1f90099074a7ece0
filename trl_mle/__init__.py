"""RL for machine-learning engineering agents, on top of TRL (https://huggingface.co/papers/2509.01684)."""

__version__ = "0.2.0"
