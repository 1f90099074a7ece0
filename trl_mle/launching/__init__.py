"""Parts of a training script around training: arguments, checks, the instrumenter, timeouts, the Hub."""

from trl_mle.launching.arguments import MLEScriptArguments, make_parser, parse
from trl_mle.launching.building import find_reward_funcs, make_endpoint, make_instrumenter
from trl_mle.launching.checks import (
    Problems,
    check_engine,
    check_model,
    check_no_adapter,
    check_no_evaluation,
    check_no_other_run,
    check_prompts,
    check_same_run,
    check_trackers,
    check_vllm,
    check_writable,
    checkpoint_to_resume,
    full_disk_noted,
    load_tokenizer,
    prompt_tokens,
)
from trl_mle.launching.hub import check_hub, push_rollouts
from trl_mle.launching.training_cores import keep_to_training_cores
from trl_mle.launching.waiting import extend_ddp_timeout


__all__ = [
    "MLEScriptArguments",
    "Problems",
    "check_engine",
    "check_hub",
    "check_model",
    "check_no_adapter",
    "check_no_evaluation",
    "check_no_other_run",
    "check_prompts",
    "check_same_run",
    "check_trackers",
    "check_vllm",
    "check_writable",
    "checkpoint_to_resume",
    "extend_ddp_timeout",
    "find_reward_funcs",
    "full_disk_noted",
    "keep_to_training_cores",
    "load_tokenizer",
    "make_endpoint",
    "make_instrumenter",
    "make_parser",
    "parse",
    "prompt_tokens",
    "push_rollouts",
]
