"""Checks before a model is loaded, for everything that would fail hours later; all problems are reported at once."""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from huggingface_hub.errors import HTTPError
from safetensors import SafetensorError
from transformers import AutoTokenizer
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations
from transformers.trainer import TRAINER_STATE_NAME, TrainerState
from yaml import YAMLError

from trl_mle.competitions import Competition, TaskSet
from trl_mle.competitions.reading import listed
from trl_mle.execution import Limits, SandboxError
from trl_mle.models import tokenize_prompts
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards.progress import ARGUMENTS_FILE, METRICS_FILE, read_arguments
from trl_mle.showing import for_terminal
from trl_mle.trainer.engine.checkpoint import damage, find_checkpoints
from trl_mle.trainer.engine.pushes import in_one_line, is_failed_upload
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


# Arguments that say what is asked, and what training maximises: a resumed run has the same
SAME = (
    "competitions",
    "holdout",
    "begin_program",
    "ideas",
    "objective",
    "max_at_k",
    "fail_reward",
    "milestone_reward",
)
OVERWRITTEN = ("config.json", "adapter_config.json", "README.md")
# Trackers whose package has the same name; the others report a missing package themselves
TRACKERS = ("mlflow", "swanlab", "tensorboard", "trackio", "wandb")


class Problems:
    """
    Collects the problems of the user's arguments.

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

    EXPECTED = (ValueError, OSError, ImportError, YAMLError, SandboxError, HTTPError)  # the user's mistakes, not ours

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Records the message of a failed check as one line, and continues."""
        try:
            yield
        except (*self.EXPECTED, RuntimeError) as error:
            if not isinstance(error, self.EXPECTED) and not is_failed_upload(error):
                raise
            message = in_one_line(error)
            if message not in self.messages:
                self.messages.append(message)

    def gather(self) -> None:
        """Shares the problems of each process with all processes of a run. A collective operation."""
        if torch.distributed.is_initialized():
            self.messages = list(dict.fromkeys(gather_object(self.messages)))

    def report(self, headline: str = "", made: Sequence[Path] = (), once: bool = True) -> None:
        """
        If there are problems, prints them, one per line, and exits with code 2. The headline says what they mean (by default, that
        nothing was started); the folders in `made` are removed if empty. Prints `once` per machine, unless other processes may
        not have these problems.
        """
        if not self.messages:
            return
        for folder in made:
            with suppress(OSError):  # not there, or not empty
                folder.rmdir()
        if not once or os.environ.get("LOCAL_RANK", "0") == "0":
            script = Path(sys.argv[0]).name
            if len(self.messages) == 1:
                lines = [f"{script}: error: {headline}{': ' if headline else ''}{self.messages[0]}"]
            else:
                lines = [f"{script}: error: {headline or f'{len(self.messages)} problems, and nothing was started'}:"]
                lines += [f"  {number}. {message}" for number, message in enumerate(self.messages, 1)]
            print(for_terminal("\n".join(lines)), file=sys.stderr)
        sys.exit(2)


def check_writable(folder: Path) -> None:
    """Raises `OSError` if the folder is not writable; does not create it."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise OSError(f"output_dir {folder} cannot be written: {error.strerror}") from error


def check_no_other_run(folder: Path, checkpoint: str | None) -> None:
    """
    Raises `FileExistsError` if the output folder holds another run than that of the checkpoint to resume from, or later checkpoints
    of this one: metrics and checkpoints of both would be mixed. Also if it holds a model or a README, which the run would
    overwrite: it may be the folder of the model to train.
    """
    complete = [path.name for path in find_checkpoints(folder) if damage(path) is None]
    if checkpoint is not None and Path(checkpoint).resolve().parent == folder.resolve():
        step = _step_of(checkpoint)
        if later := [name for name in complete if int(name.partition("-")[2]) > step]:
            raise FileExistsError(
                f"resume_from_checkpoint: {folder} holds later checkpoints ({listed(later)}): delete or move them, or name another "
                "output_dir"
            )
        return
    metrics = folder / METRICS_FILE
    lines = metrics.read_bytes().splitlines() if metrics.is_file() else []
    logged = sum(b'"reward"' in line for line in lines)  # the first and the last say when training began and ended
    if complete:
        raise FileExistsError(
            f"output_dir {folder} holds a run with {complete[0]}: resume it with resume_from_checkpoint: true, or "
            "name another output_dir"
        )
    if logged:
        raise FileExistsError(
            f"output_dir {folder} holds a run of {logged} steps without a complete checkpoint: delete it, or name another output_dir"
        )
    if written := [name for name in OVERWRITTEN if (folder / name).is_file()]:
        raise FileExistsError(
            f"output_dir {folder} holds {listed(written)}, which training would overwrite: name another output_dir"
        )


def check_same_run(checkpoint: str | None, script_args: Any, args: Any, tasks: TaskSet) -> None:
    """
    Raises `ValueError` if the checkpoint to resume from is beyond `max_steps`, or if its run had other competitions or another one of
    [`SAME`], as far as it says. Competitions may be left out, such as broken ones.
    """
    if checkpoint is None:
        return
    if 0 < args.max_steps < _step_of(checkpoint):
        raise ValueError(
            f"resume_from_checkpoint: {checkpoint} is beyond max_steps={args.max_steps}, and nothing would be trained: raise max_steps"
        )
    if not (path := Path(checkpoint).parent / ARGUMENTS_FILE).is_file():
        return
    before, now = read_arguments(path), vars(script_args) | vars(args)
    # A default that depends on others is missing if the configuration was refused
    names = [name for name in SAME if now[name] is not None and before.get(name, now[name]) != now[name]]
    # Other names may stand for the same competitions, such as the folder of one that is now run from elsewhere
    if "competitions" in names:
        known = {
            *TaskSet(before["competitions"], before["data_dir"]),
            *(Path(name).name for name in before["competitions"]),
        }
        if set(tasks) <= known:
            names.remove("competitions")
    if names:
        were = ", ".join(f"{name}={before[name]}, not {now[name]}" for name in names)
        raise ValueError(
            f"resume_from_checkpoint: the run of {checkpoint} has {were}: resume it with the same, or begin a new run in another "
            "output_dir"
        )


def _step_of(checkpoint: str) -> int:
    return TrainerState.load_from_json(str(Path(checkpoint, TRAINER_STATE_NAME))).global_step


def checkpoint_to_resume(value: str | bool | None, folder: Path) -> str | None:
    """
    Finds the checkpoint that `resume_from_checkpoint` names: a path, or `true` for the newest complete one in the output
    folder. Returns its path, or `None` if training starts from scratch.

    Raises:
        `ValueError`: No complete checkpoint was found.
    """
    if str(value or False).lower() == "false":
        return None
    if str(value).lower() != "true":
        if not Path(str(value)).is_dir():
            raise ValueError(f"resume_from_checkpoint: there is no folder {value}")
        if (reason := damage(Path(str(value)))) is not None:
            raise ValueError(f"resume_from_checkpoint: {value} cannot be resumed from: {reason}")
        return str(value)
    reasons: dict[str, str] = {}  # of those that are left out
    for checkpoint in find_checkpoints(folder):
        reason = damage(checkpoint)
        if reason is None:
            if os.environ.get("LOCAL_RANK", "0") == "0":
                for name, why in reasons.items():
                    print(f"{name} is left out: {why}", file=sys.stderr)
            return str(checkpoint)
        reasons[checkpoint.name] = reason
    left_out = "".join(f"; {name}: {why}" for name, why in reasons.items())
    raise ValueError(f"resume_from_checkpoint: there is no complete checkpoint in {folder}{left_out}")


@contextmanager
def full_disk_noted(folder: Path) -> Iterator[None]:
    """Ends the process with exit code 1 and one line if something fails because the disk of a folder is full."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # torch does not say why it cannot write
        message = in_one_line(error)
        full = folder.is_dir() and shutil.disk_usage(folder).free < 1 << 20
        if not full and "No space left" not in message and "quota exceeded" not in message:
            raise
        sys.exit(
            f"{Path(sys.argv[0]).name}: error: the disk of {folder} is full ({message}): make room, and resume with "
            "--resume_from_checkpoint true"
        )


def load_tokenizer(name: str | None, **options: Any) -> Any:
    """
    Loads a model's tokenizer with options of [`~transformers.AutoTokenizer`].

    Raises:
        `ValueError`: No model is named, or it has no chat template.
        `OSError`: The tokenizer cannot be loaded.
    """
    if name is None:
        raise ValueError("model_name_or_path: name the model to train")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        where = "" if Path(name).is_dir() else ", which is not a local folder"
        raise OSError(f"model_name_or_path: cannot load the tokenizer of {name}{where}: {error}") from error
    if tokenizer.chat_template is None:
        raise ValueError(f"model_name_or_path: {name} has no chat template: use an instruction-tuned model")
    return tokenizer


def check_no_adapter(name: str | None) -> None:
    """Raises `ValueError` if the model to train is a folder with an adapter alone."""
    folder = Path(name or "")
    if (adapter := folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        base = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
        raise ValueError(
            f"model_name_or_path: {name} is a LoRA adapter of {base}: merge it first (peft's merge_and_unload), or go on with its run "
            "(resume_from_checkpoint)"
        )


def check_no_evaluation(args: MLEGRPOConfig) -> None:
    """Raises `ValueError` if TRL's own evaluation is asked for, for which the script has no dataset."""
    if str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no":
        raise ValueError(
            "eval_strategy: there is no evaluation dataset: leave it out, and run trl-mle evaluate on checkpoints"
        )


def check_trackers(report_to: Sequence[str] | None) -> None:
    """Raises `ValueError` if transformers does not know a tracker in `report_to`, or if it is not installed."""
    names = [report_to] if isinstance(report_to, str) else report_to or []  # a raw argument if it was refused
    for name in names:
        if name in ("all", "none"):
            continue
        if name not in INTEGRATION_TO_CALLBACK:
            raise ValueError(f"report_to: {name} is not one of {', '.join(sorted(INTEGRATION_TO_CALLBACK))}")
        package = {"trackio": "trl-mle[trackio]"}.get(name, name)
        if name in TRACKERS and name not in get_available_reporting_integrations():
            raise ValueError(f"report_to: {name} is not installed: pip install '{package}'")


def check_prompts(
    tokenizer: Any,
    competitions: Sequence[Competition],
    max_prompt_length: int | None,
    limits: Limits,
    begin_program: bool,
) -> None:
    """Raises `ValueError` if a competition's prompt has more tokens than `max_prompt_length`."""
    for competition in competitions:
        tokens = prompt_tokens(tokenizer, scratch_prompt(competition, limits, begin_program=begin_program))
        if max_prompt_length is not None and tokens > max_prompt_length:
            raise ValueError(
                f"the prompt of {competition.id} has {tokens} tokens, more than max_prompt_length={max_prompt_length}: "
                "raise it, or set it to null"
            )


def prompt_tokens(tokenizer: Any, prompt: list[dict[str, str]]) -> int:
    """The length of a prompt in tokens, with the chat template."""
    return len(tokenize_prompts(tokenizer, [prompt])[0])


def is_fsdp() -> bool:
    """Whether the launcher uses FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def check_engine(use_cpu: bool) -> None:
    """Raises `ValueError` if accelerate would silently train with DDP instead of FSDP."""
    if is_fsdp() and (use_cpu or not torch.accelerator.is_available()):
        raise ValueError(
            "FSDP needs GPUs; on a CPU, accelerate would silently train with DDP: use "
            "accelerate_configs/ddp.yaml or zero3.yaml"
        )


def check_model(args: Any, model_args: Any) -> None:
    """Raises `ValueError` if the model, loaded as [`~trl.ModelConfig`] says, cannot be trained as configured."""
    if isinstance(args, MLEGRPOConfig):  # otherwise the configuration was refused, and is incomplete
        args.check_model(
            dropout=model_args.lora_dropout if model_args.use_peft else 0.0,
            quantized=model_args.load_in_4bit or model_args.load_in_8bit,
        )


def check_base_model(script_args: Any, args: Any, model_args: Any) -> None:
    """Raises `ValueError` if the policy's base model should mark the milestones, but training keeps no base model."""
    named = script_args.instrumenter_url or script_args.instrumenter_model
    if script_args.instrumenter == "lm" and not named and not model_args.use_peft and args.beta == 0:
        raise ValueError(
            "there is no base model to instrument with: train with LoRA (use_peft) or beta > 0, or set "
            "instrumenter_url or instrumenter_model"
        )


def check_vllm(args: Any, gpu_slots: Sequence[str], use_peft: bool) -> None:
    """Raises `ImportError` if vLLM is needed but not installed, and `ValueError` if its options conflict."""
    if not args.use_vllm:
        return
    if use_peft and is_fsdp():
        raise ValueError(
            "use_vllm: under FSDP, TRL would merge the adapter into sharded weights: train with LoRA under ddp.yaml, "
            "zero2.yaml or zero3.yaml, or train all weights (use_peft: false)"
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
    if gpu_slots and args.async_rollouts:
        raise ValueError(
            "gpu_slots: with async_rollouts programs run while a colocated vLLM generates: set vllm_mode to server"
        )
