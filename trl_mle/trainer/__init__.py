"""GRPO whose advantages are weighted by how long each program ran (https://huggingface.co/papers/2509.01684)."""

from trl_mle.trainer.async_mle_grpo_trainer import AsyncMLEGRPOTrainer
from trl_mle.trainer.duration import duration_weights
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.mle_grpo_trainer import MLEGRPOTrainer
from trl_mle.trainer.progress_callback import MLEProgressCallback


__all__ = [
    "AsyncMLEGRPOTrainer",
    "MLEGRPOConfig",
    "MLEGRPOTrainer",
    "MLEProgressCallback",
    "duration_weights",
]
