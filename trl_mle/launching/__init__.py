"""What a training script does before and after training: checks, timeouts, the Hub."""

from trl_mle.launching.checks import (
    Problems,
    check_engine,
    check_model,
    check_prompts,
    check_vllm,
    check_writable,
    checkpoint_to_resume,
    load_tokenizer,
)
from trl_mle.launching.hub import check_hub, push_rollouts
from trl_mle.launching.waiting import extend_ddp_timeout


__all__ = [
    "Problems",
    "check_engine",
    "check_hub",
    "check_model",
    "check_prompts",
    "check_vllm",
    "check_writable",
    "checkpoint_to_resume",
    "extend_ddp_timeout",
    "load_tokenizer",
    "push_rollouts",
]
