"""What can be asked of a training run, and how it is asked: a YAML, the command line, or both."""

import argparse
import os
import warnings
from dataclasses import dataclass, field, fields
from typing import Any

from trl import ModelConfig, TrlParser

from trl_mle.execution.building import ExecutorArguments
from trl_mle.launching.checks import Problems
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


LAUNCHED = "TRL_MLE_LAUNCHED"  # environment variable of what `trl-mle train` has started


@dataclass
class MLEScriptArguments(ExecutorArguments):
    """Arguments beside those of [`~trl_mle.trainer.MLEGRPOConfig`] and [`~trl.ModelConfig`]; see their help."""

    competitions: list[str] = field(default_factory=list, metadata={"help": "Ids of the competitions to train on."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder with the prepared MLE-bench competitions."})
    holdout: float = field(
        default=0.0,
        metadata={"help": "Share of the hidden rows that training never sees, for reports; 0 is the paper's way."},
    )
    instrumenter: str = field(
        default="ast",
        metadata={"help": "Who marks the milestones: `ast`, `lm` (a frozen language model), or `none` (no credit)."},
    )
    instrumenter_url: str | None = field(
        default=None, metadata={"help": "OpenAI-compatible endpoint of the instrumenting model."}
    )
    instrumenter_model: str | None = field(
        default=None,
        metadata={
            "help": "Its name there; without an endpoint, a model to load. Without either, the policy's base model."
        },
    )
    instrumenter_mode: str = field(default="lines", metadata={"help": "What it answers: `lines` or `rewrite`."})
    instrumenter_deadline_s: float = field(default=60.0, metadata={"help": "Seconds for its answers to a batch."})
    fail_reward: float = field(default=-10.0, metadata={"help": "Reward of a program that fails."})
    milestone_reward: float = field(default=0.1, metadata={"help": "Partial credit per milestone."})
    push_rollouts_to_hub: bool = field(
        default=False,
        metadata={"help": "With `push_to_hub`: upload best solutions and the record of executions as a dataset."},
    )
    best_of_n: int = field(
        default=0,
        metadata={"help": "Every `best_of_n_steps` steps, sample so many programs per competition and log the best."},
    )
    best_of_n_steps: int = field(default=10, metadata={"help": "Steps from one best of N to the next."})

    def __post_init__(self) -> None:
        if isinstance(self.competitions, str):  # `competitions: digits` in a YAML
            self.competitions = [self.competitions]
        self.gpu_slots = [str(gpu) for gpu in self.gpu_slots]  # `[0, 1]` in a YAML

    def check(self) -> None:
        """Raises `ValueError` if they ask for what there is not."""
        if not self.competitions:
            raise ValueError("competitions: name at least one")
        for name, least in (("best_of_n", 0), ("best_of_n_steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.instrumenter_deadline_s <= 0:
            raise ValueError(f"instrumenter_deadline_s must be positive, got {self.instrumenter_deadline_s}")
        if self.instrumenter not in ("ast", "lm", "none"):
            raise ValueError(f"instrumenter must be 'ast', 'lm' or 'none', got {self.instrumenter!r}")


class Parser(TrlParser):
    """Remembers what was asked for: a configuration that is refused must not hide what else is wrong."""

    asked: argparse.Namespace | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        namespace, remaining = super().parse_known_args(args, namespace)
        self.asked = argparse.Namespace(**vars(namespace))
        return namespace, remaining

    def set_defaults_with_config(self, **config: Any) -> list[str]:
        remaining = super().set_defaults_with_config(**config)
        if "--accelerate_config" in remaining and LAUNCHED not in os.environ:
            raise ValueError(
                "accelerate_config: start this with `trl-mle train`, or take `accelerate launch --config_file`"
            )
        return remaining


class Splitter(Parser):
    """Finds what is not for the training script, and reads nothing else: a configuration may ask for a GPU."""

    def set_defaults_with_config(self, **config: Any) -> list[str]:
        return TrlParser.set_defaults_with_config(self, **config)

    def parse_args_into_dataclasses(self, args: Any = None, *more: Any, **options: Any) -> Any:
        return (self.parse_known_args(args)[1],)


def split(args: list[str]) -> tuple[list[str], list[str]]:
    """
    What a launcher should take.

    Args:
        args (`list[str]`):
            Arguments of the training script, with others between them.

    Returns:
        `tuple[list[str], list[str]]`: The others, those in the YAML and those in `args`.
    """
    parser: Any = make_parser(Splitter)
    return parser.parse_args_and_config(args, return_remaining_strings=True, separate_remaining_strings=True)


def make_parser(kind: type[Parser] = Parser) -> Parser:
    """The parser of [`MLEScriptArguments`], [`~trl_mle.trainer.MLEGRPOConfig`] and [`~trl.ModelConfig`]."""
    # What warns is TRL's own default; and a usage would bury a message below some hundred options
    warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
    arguments: Any = (MLEScriptArguments, MLEGRPOConfig, ModelConfig)
    parser = kind(arguments, usage=argparse.SUPPRESS)
    parser.set_defaults(lora_dropout=0.0)  # TRL's 0.05 makes noise of every ratio to a stored log-probability
    return parser


def parse() -> tuple[Any, Any, Any, Problems]:
    """
    The arguments, and what is wrong with them.

    Returns:
        `tuple`: The three that [`make_parser`] parses, and the problems. Of a configuration that is refused, the second and
        the third are what was asked for.
    """
    parser, problems = make_parser(), Problems()
    with problems.noted():
        # What `trl-mle train` left in the YAML was for accelerate, which has taken it
        script_args, training_args, model_args = parser.parse_args_and_config(
            fail_with_unknown_args=LAUNCHED not in os.environ
        )
        return script_args, training_args, model_args, problems
    if parser.asked is None:  # the YAML could not be read
        problems.report()
    asked: Any = parser.asked
    known = MLEScriptArguments(**{item.name: getattr(asked, item.name) for item in fields(MLEScriptArguments)})
    return known, asked, asked, problems
