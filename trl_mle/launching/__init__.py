"""Parts of a training script around training: arguments, checks, the instrumenter, timeouts, the Hub."""

from trl_mle.launching.arguments import MLEScriptArguments, make_parser, parse
from trl_mle.launching.building import make_instrumenter
from trl_mle.launching.processes import extend_ddp_timeout, keep_to_training_cores


__all__ = [
    "MLEScriptArguments",
    "extend_ddp_timeout",
    "keep_to_training_cores",
    "make_instrumenter",
    "make_parser",
    "parse",
]
