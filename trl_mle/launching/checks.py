"""What would fail hours later is looked for before a model is loaded, and all of it is reported at once."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from huggingface_hub.errors import HTTPError
from transformers import AutoTokenizer, TrainerState
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations
from yaml import YAMLError

from trl_mle.competitions import Competition
from trl_mle.execution import Limits, SandboxError
from trl_mle.models import look_up
from trl_mle.prompts import scratch_prompt
from trl_mle.trainer.hub import in_one_line, is_failed_upload
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


# Packages of these names; other trackers report it themselves
TRACKERS = ("mlflow", "swanlab", "tensorboard", "trackio", "wandb")


class Problems:
    """
    What is wrong with what the user asked for.

    Example:

    ```python
    >>> problems = Problems()
    >>> with problems.noted():
    ...     load_competition("no-such-competition")
    >>> with problems.noted():
    ...     check_writable(Path("/proc/policy"))
    >>> problems.report()  # both; exits with code 2
    ```
    """

    EXPECTED = (ValueError, OSError, ImportError, YAMLError, SandboxError, HTTPError)  # not our mistakes

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Goes on behind a check that fails, and keeps what it says, in one line."""
        try:
            yield
        except (*self.EXPECTED, RuntimeError) as error:
            if not isinstance(error, self.EXPECTED) and not is_failed_upload(error):
                raise
            message = in_one_line(error)
            if message not in self.messages:
                self.messages.append(message)

    def gather(self) -> None:
        """Tells all processes of a run what each of them has found. All call it, or none."""
        if torch.distributed.is_initialized():
            self.messages = list(dict.fromkeys(gather_object(self.messages)))

    def report(self, headline: str = "", made: Sequence[Path] = ()) -> None:
        """
        Ends the process with exit code 2 if there are problems, having told them: a line each, once per machine.

        Args:
            headline (`str`, *optional*):
                What they mean. Defaults to nothing having been started.
            made (`list[Path]`, *optional*):
                Folders to remove if they are empty.
        """
        if not self.messages:
            return
        for folder in made:
            with suppress(OSError):  # not there, or not empty
                folder.rmdir()
        if os.environ.get("LOCAL_RANK", "0") == "0":
            script = Path(sys.argv[0]).name
            if len(self.messages) == 1:
                lines = [f"{script}: error: {headline}{': ' if headline else ''}{self.messages[0]}"]
            else:
                lines = [f"{script}: error: {headline or f'{len(self.messages)} problems, and nothing was started'}:"]
                lines += [f"  {number}. {message}" for number, message in enumerate(self.messages, 1)]
            print("\n".join(lines), file=sys.stderr)
        sys.exit(2)


def check_writable(folder: Path) -> None:
    """Raises `OSError` if nothing can be written to the folder, without creating it."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise OSError(f"output_dir {folder} cannot be written: {error.strerror}") from error


def checkpoint_to_resume(value: str | bool | None, folder: Path) -> str | None:
    """
    The checkpoint that `resume_from_checkpoint` names.

    Args:
        value (`str` or `bool`, *optional*):
            A path, or `true` for the newest whole one in `folder`.
        folder (`Path`):
            The output folder.

    Returns:
        `str`: Its path; `None` if training is to start anew.

    Raises:
        `ValueError`: There is none.
    """
    if str(value or False).lower() == "false":
        return None
    if str(value).lower() == "true":
        where = f"in {folder}"
        whole = [path for path in folder.glob("checkpoint-[0-9]*") if is_whole(path)]
        checkpoint = max(whole, key=lambda path: int(path.name.partition("-")[2]), default=None)
    else:
        where = str(value)
        checkpoint = Path(where) if is_whole(Path(where)) else None
    if checkpoint is None:
        raise ValueError(f"resume_from_checkpoint: there is no checkpoint {where} that was written to its end")
    return str(checkpoint)


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end: its last file is there, and can be read."""
    try:
        TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError):
        return False
    return True


def load_tokenizer(name: str | None, **options: Any) -> Any:
    """
    Loads a model's tokenizer.

    Args:
        name (`str`, *optional*):
            The model: a folder, or its name on the Hub.
        **options:
            For [`~transformers.AutoTokenizer`].

    Raises:
        `ValueError`: No model is named, or it has no chat template.
        `OSError`: It cannot be loaded.
    """
    if name is None:
        raise ValueError("model_name_or_path: name the model to train")
    try:
        look_up(name, options.get("revision"))
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        where = "" if Path(name).is_dir() else ", which is no folder here"
        raise OSError(f"model_name_or_path: cannot load the tokenizer of {name}{where}: {error}") from error
    if tokenizer.chat_template is None:
        raise ValueError(f"model_name_or_path: {name} has no chat template, take an instruction-tuned model")
    return tokenizer


def check_trackers(report_to: Sequence[str] | None) -> None:
    """Raises `ValueError` if the run is to be reported to a tracker that transformers does not know or that is not installed."""
    names = [report_to] if isinstance(report_to, str) else report_to or []  # of bad arguments it is as it was given
    for name in names:
        if name in ("all", "none"):
            continue
        if name not in INTEGRATION_TO_CALLBACK:
            raise ValueError(f"report_to: {name} is none of {', '.join(sorted(INTEGRATION_TO_CALLBACK))}")
        package = {"trackio": "trl-mle[trackio]"}.get(name, name)
        if name in TRACKERS and name not in get_available_reporting_integrations():
            raise ValueError(f"report_to: {name} is not installed: pip install '{package}'")


def check_prompts(
    tokenizer: Any,
    competitions: Sequence[Competition],
    max_prompt_length: int | None,
    limits: Limits,
) -> None:
    """Raises `ValueError` if a competition's prompt has more tokens than `max_prompt_length`."""
    for competition in competitions:
        prompt = scratch_prompt(competition, limits)
        tokens = len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False))
        if max_prompt_length is not None and tokens > max_prompt_length:
            raise ValueError(
                f"the prompt of {competition.id} has {tokens} tokens, more than max_prompt_length={max_prompt_length}: "
                "raise it, or set null"
            )


def is_fsdp() -> bool:
    """Whether the launcher was asked for FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def check_engine(use_cpu: bool, best_of_n: int = 0) -> None:
    """
    Raises `ValueError` if the launcher was asked for FSDP and accelerate would silently train by DDP instead, or if programs
    are to be sampled for `best_of_n`: under FSDP each forward pass needs all processes, and they write unequally much.
    """
    if not is_fsdp():
        return
    if best_of_n:
        raise ValueError("best_of_n cannot sample under FSDP: leave it out, and use trl-mle evaluate on checkpoints")
    if use_cpu or not torch.accelerator.is_available():
        raise ValueError(
            "FSDP needs GPUs, and on a CPU accelerate would train by DDP without a word: take accelerate_configs/ddp.yaml "
            "or zero3.yaml"
        )


def check_model(args: Any, model_args: Any) -> None:
    """Raises `ValueError` if the model, as [`~trl.ModelConfig`] says it is to be loaded, cannot be trained as asked."""
    if isinstance(args, MLEGRPOConfig):  # else they were refused, and are not all there
        args.check_model(
            dropout=model_args.lora_dropout if model_args.use_peft else 0.0,
            quantized=model_args.load_in_4bit or model_args.load_in_8bit,
        )


def check_base_model(script_args: Any, args: Any, model_args: Any) -> None:
    """Raises `ValueError` if the policy's own base model is to mark the milestones, and training keeps none."""
    named = script_args.instrumenter_url or script_args.instrumenter_model
    if script_args.instrumenter == "lm" and not named and not model_args.use_peft and args.beta == 0:
        raise ValueError(
            "there is no base model to instrument with: train with LoRA (use_peft) or beta > 0, or give "
            "instrumenter_url or instrumenter_model"
        )


def check_weighting(script_args: Any, args: Any) -> None:
    """Raises `ValueError` if the weighting needs what the executor does not report."""
    if script_args.ray_address and args.duration_weighting == "inclusion":
        raise ValueError(
            "duration_weighting: inclusion (async_rollouts' default unless the objective is reward) needs to know since when "
            "programs run, which a Ray cluster does not report: run them on this machine (without ray_address), or set linear "
            "or none"
        )


def check_vllm(args: Any, gpu_slots: Sequence[str], use_peft: bool) -> None:
    """Raises `ImportError` if vLLM is asked for and not installed, `ValueError` if what is asked of it cannot work."""
    if not args.use_vllm:
        return
    if use_peft and is_fsdp():
        raise ValueError(
            "use_vllm: under FSDP TRL merges an adapter into weights that are split over the processes: train with LoRA under "
            "ddp.yaml, zero2.yaml or zero3.yaml, or all weights (use_peft: false)"
        )
    if importlib.util.find_spec("vllm") is None:
        raise ImportError("use_vllm: vLLM is not installed: pip install 'trl-mle[vllm]'")
    if args.vllm_mode != "colocate":
        return
    limit = args.vllm_max_model_length
    lengths = (args.max_prompt_length, args.max_completion_length)
    if limit is not None and None not in lengths and sum(lengths) > limit:
        raise ValueError(
            f"vllm_max_model_length={limit} is shorter than max_prompt_length={lengths[0]} and "
            f"max_completion_length={lengths[1]} together: raise it to {sum(lengths)}"
        )
    if gpu_slots and not args.vllm_enable_sleep_mode:
        raise ValueError(
            "gpu_slots: a colocated vLLM keeps its GPU memory while programs run: set vllm_enable_sleep_mode"
        )
    ahead = [name for name in ("async_rollouts", "skip_zero_signal") if getattr(args, name)]
    if gpu_slots and ahead:
        raise ValueError(
            f"gpu_slots: with {ahead[0]} programs run while a colocated vLLM generates: set vllm_mode to server"
        )
