"""Parts of a training script around training: arguments, checks, the instrumenter, timeouts, the Hub."""

from trl_mle.launching.arguments import MLEScriptArguments, make_parser, parse
from trl_mle.launching.building import find_reward_funcs, make_instrumenter
from trl_mle.launching.checks import (
    check_engine,
    check_no_other_run,
    check_prompts,
    check_same_run,
    check_trackers,
    checkpoint_to_resume,
    full_disk_in_one_line,
    load_tokenizer,
    one_line_errors,
    prompt_tokens,
)
from trl_mle.launching.hub import check_hub, push_rollouts
from trl_mle.launching.training_cores import keep_to_training_cores
from trl_mle.launching.waiting import extend_ddp_timeout


__all__ = [
    "MLEScriptArguments",
    "check_engine",
    "check_hub",
    "check_no_other_run",
    "check_prompts",
    "check_same_run",
    "check_trackers",
    "checkpoint_to_resume",
    "extend_ddp_timeout",
    "find_reward_funcs",
    "full_disk_in_one_line",
    "keep_to_training_cores",
    "load_tokenizer",
    "make_instrumenter",
    "make_parser",
    "one_line_errors",
    "parse",
    "prompt_tokens",
    "push_rollouts",
]
