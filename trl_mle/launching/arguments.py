"""Arguments of a training run, from a YAML file, the command line, or both."""

import os
from dataclasses import dataclass
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from trl_mle.execution.options import ExecutorArguments, option
from trl_mle.launching.checks import one_line_errors
from trl_mle.shipped import LAUNCHED
from trl_mle.spelling import did_you_mean
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


@dataclass
class MLEScriptArguments(ExecutorArguments):
    """Arguments in addition to [`~trl_mle.trainer.MLEGRPOConfig`] and [`~trl.ModelConfig`]; see their help."""

    competitions: list[str] = option([], "Ids, folders, ranges or lists of the competitions to train on.")
    data_dir: str | None = option(None, "Folder with the prepared MLE-bench competitions.")
    holdout: float = option(0.0, "Share of the hidden rows to hold out, for reports; 0 as in the paper.")
    training_cores: int = option(0, "Cores that programs leave to training; 0: both share all of them.")
    instrumenter: str = option(
        "ast",
        "What marks the milestones: `ast`, `lm` (a frozen language model), or `none` (no credit).",
        choices=["ast", "lm", "none"],
    )
    instrumenter_url: str | None = option(None, "OpenAI-compatible endpoint of the instrumenting model.")
    instrumenter_model: str | None = option(
        None, "Its name at the endpoint, or without one, a model that each process loads."
    )
    instrumenter_mode: str = option(
        "quote", "What the instrumenting model answers: `quote` or `rewrite`.", choices=["quote", "rewrite"]
    )
    instrumenter_deadline_s: float = option(60.0, "Time limit for its answers to a batch, in seconds.")
    fail_reward: float = option(-10.0, "Reward of a program that fails.")
    milestone_reward: float = option(0.1, "Partial credit per milestone.")
    reward_funcs: list[str] = option(
        [], "Further reward functions, as dotted paths; `reward_weights` weighs all, that of the programs first."
    )
    push_rollouts_to_hub: bool = option(
        False, "With `push_to_hub`, also upload best solutions and executions, as a dataset."
    )

    def __post_init__(self) -> None:
        for name in ("competitions", "reward_funcs"):
            if isinstance(value := getattr(self, name), str):  # `competitions: digits` in a YAML
                setattr(self, name, [value])
        gpus: Any = self.gpu_slots  # `[0, 1]`, `0` or null in a YAML
        self.gpu_slots = [str(gpu) for gpu in (gpus if isinstance(gpus, list) else [] if gpus is None else [gpus])]

    def check(self) -> None:
        """Raises `ValueError` if an argument has an impossible value."""
        if not self.competitions:
            raise ValueError("competitions: name at least one")
        if self.instrumenter_url is not None and self.instrumenter != "lm":
            raise ValueError("instrumenter_url has no effect without instrumenter: lm")
        if self.instrumenter == "lm" and self.instrumenter_url is None and self.instrumenter_model is None:
            raise ValueError("instrumenter: lm needs a model: set instrumenter_url or instrumenter_model")


class Parser(TrlParser):
    """TRL's parser, which does not see the options of a recipe that `trl-mle train` has given to accelerate."""

    def set_defaults_with_config(self, **config: Any) -> list[str]:
        of_accelerate = os.environ.get(LAUNCHED, "").split()
        config = {name: value for name, value in config.items() if name not in of_accelerate}
        known = {action.dest: None for action in self._actions}
        if name := next((name for name in config if name not in known), None):
            raise ValueError(f"the recipe has an unknown option, {name}: {did_you_mean(name, known)}".rstrip(": "))
        return super().set_defaults_with_config(**config)

    def error(self, message: str) -> NoReturn:  # argparse's would print it in every process
        raise ValueError(message)


def make_parser() -> Parser:
    """The parser of [`MLEScriptArguments`], [`~trl_mle.trainer.MLEGRPOConfig`] and [`~trl.ModelConfig`]."""
    arguments: Any = (MLEScriptArguments, MLEGRPOConfig, ModelConfig)
    parser = Parser(arguments)
    parser.set_defaults(lora_dropout=0.0)  # TRL's 0.05 adds noise to every ratio to a stored log-probability
    return parser


def parse() -> tuple[MLEScriptArguments, MLEGRPOConfig, ModelConfig]:
    """Parses the command line and its YAML. If they are refused, ends the process with one line and exit code 2."""
    with one_line_errors():
        script_args, training_args, model_args = make_parser().parse_args_and_config()
        script_args.check()
    return script_args, training_args, model_args
