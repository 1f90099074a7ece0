"""Parts of a training script around training: arguments, checks, the instrumenter, timeouts, the Hub."""

from trl_mle.launching.arguments import MLEScriptArguments, make_parser, parse
from trl_mle.launching.building import make_instrumenter
from trl_mle.launching.training_cores import keep_to_training_cores
from trl_mle.launching.waiting import extend_ddp_timeout


__all__ = [
    "MLEScriptArguments",
    "extend_ddp_timeout",
    "keep_to_training_cores",
    "make_instrumenter",
    "make_parser",
    "parse",
]
