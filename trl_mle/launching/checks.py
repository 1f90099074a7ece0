"""Checks before a model is loaded, for what would only fail hours later, or never."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from huggingface_hub.errors import HTTPError
from transformers import AutoTokenizer
from transformers.trainer import TRAINER_STATE_NAME, TrainerState
from yaml import YAMLError

from trl_mle.competitions import TaskSet
from trl_mle.execution import Limits, SandboxError
from trl_mle.models.transformers_model import tokenize_prompts
from trl_mle.rewards.progress import METRICS_FILE, trained_with
from trl_mle.showing import terminal_line
from trl_mle.trainer.asking.dataset import longest_prompt
from trl_mle.trainer.engine.checkpoint import damage, find_checkpoints
from trl_mle.trainer.engine.pushes import in_one_line, is_failed_upload
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


USER_ERRORS = (ValueError, OSError, ImportError, YAMLError, SandboxError, HTTPError)  # the user's mistakes, not ours
# Arguments that say what is asked, and what training maximises: a resumed run has the same
SAME = ("holdout", "begin_program", "ideas", "objective", "max_at_k", "fail_reward", "milestone_reward")
OVERWRITTEN = ("config.json", "adapter_config.json", "README.md")


@contextmanager
def one_line_errors(
    headline: str = "", errors: Any = USER_ERRORS, gather: bool = False, once: bool = True
) -> Iterator[None]:
    """Ends the process with one line and exit code 2 if something fails that the user can mend (`errors`), or if an
    upload fails. With `gather`, a collective operation, all processes end if one fails; with `once`, one process of a
    machine prints the line."""
    messages = [""]
    try:
        yield
    except (*errors, RuntimeError) as error:
        if not isinstance(error, errors) and not is_failed_upload(error):
            raise
        messages = [in_one_line(error)]
    if gather and torch.distributed.is_initialized():
        messages = gather_object(messages)
    if not any(messages):
        return
    if not once or os.environ.get("LOCAL_RANK", "0") == "0":
        parts = [Path(sys.argv[0]).name, "error", headline, next(filter(None, messages))]
        print(terminal_line(": ".join(filter(None, parts))), file=sys.stderr)
    sys.exit(2)


def checkpoint_to_resume(value: str | bool | None, folder: Path) -> str | None:
    """The checkpoint that `resume_from_checkpoint` names, for `true` the newest complete one in the folder; `None` if
    training starts from scratch. Raises `ValueError` if none is complete."""
    if str(value or False).lower() == "false":
        return None
    candidates = find_checkpoints(folder) if str(value).lower() == "true" else [Path(str(value))]
    reasons: list[str] = []
    for checkpoint in candidates:
        if (reason := damage(checkpoint)) is None:
            if reasons and os.environ.get("LOCAL_RANK", "0") == "0":
                print("\n".join(reasons), file=sys.stderr)
            return str(checkpoint)
        reasons.append(f"{checkpoint.name} is left out: {reason}")
    why = "; ".join([f"there is no complete checkpoint in {folder}", *reasons])
    raise ValueError(f"resume_from_checkpoint: {why}")


def check_no_other_run(folder: Path, checkpoint: str | None) -> None:
    """Raises `FileExistsError` if the output folder holds a model, another run than that of the checkpoint to resume
    from, or later checkpoints of this one."""
    complete = [path.name for path in find_checkpoints(folder) if damage(path) is None]
    if checkpoint is not None and Path(checkpoint).resolve().parent == folder.resolve():
        if later := [name for name in complete if int(name.partition("-")[2]) > _step_of(checkpoint)]:
            names = ", ".join(later)
            raise FileExistsError(f"resume_from_checkpoint: {folder} holds later checkpoints ({names}): delete them")
        return
    present = [*complete, *(name for name in OVERWRITTEN if (folder / name).is_file())]
    metrics = folder / METRICS_FILE
    if metrics.is_file() and b'"reward"' in metrics.read_bytes():  # other lines say when training began and ended
        present.append(METRICS_FILE)
    if present:
        resume = "resume it with resume_from_checkpoint: true" if complete else "delete it"
        raise FileExistsError(f"output_dir {folder} holds {present[0]}: {resume}, or name another output_dir")


def check_same_run(checkpoint: str | None, script_args: Any, args: Any, tasks: TaskSet) -> None:
    """Raises `ValueError` if the checkpoint to resume from is beyond `max_steps`, or if its run lacked a competition,
    or had another one of [`SAME`]."""
    if checkpoint is None:
        return
    if 0 < args.max_steps < _step_of(checkpoint):
        raise ValueError(f"resume_from_checkpoint: {checkpoint} is beyond max_steps={args.max_steps}: raise max_steps")
    before, now = trained_with(checkpoint), vars(script_args) | vars(args)
    names = [name for name in SAME if before.get(name, now[name]) != now[name]]
    if "competitions" in before and not set(tasks) <= set(TaskSet(before["competitions"], before["data_dir"])):
        names.append("competitions")
    if names:
        were = ", ".join(f"{name}={before[name]}, not {now[name]}" for name in names)
        raise ValueError(f"resume_from_checkpoint: the run of {checkpoint} has {were}: resume it with the same")


def _step_of(checkpoint: str) -> int:
    return TrainerState.load_from_json(str(Path(checkpoint, TRAINER_STATE_NAME))).global_step


def load_tokenizer(name: str | None, **options: Any) -> Any:
    """Loads a tokenizer. Raises `ValueError` or `OSError` if it cannot be loaded, or has no chat template."""
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


def check_prompts(tokenizer: Any, tasks: TaskSet, limits: Limits, args: MLEGRPOConfig) -> None:
    """Raises `ValueError` if a competition's prompt has more tokens than `max_prompt_length`."""
    for name in tasks.few():
        tokens = prompt_tokens(tokenizer, longest_prompt(tasks, name, limits, args))
        if args.max_prompt_length is not None and tokens > args.max_prompt_length:
            limit = f"max_prompt_length={args.max_prompt_length}"
            raise ValueError(f"the prompt of {name} has {tokens} tokens, more than {limit}: raise it")


def prompt_tokens(tokenizer: Any, prompt: list[dict[str, str]]) -> int:
    """The length of a prompt in tokens, with the chat template."""
    return len(tokenize_prompts(tokenizer, [prompt])[0])


def check_trackers(args: MLEGRPOConfig) -> None:
    """Raises `ImportError` if a tracker is not installed: transformers would say so with a traceback."""
    for name in ("mlflow", "tensorboard", "trackio", "wandb"):
        if name in (args.report_to or ()) and find_spec(name) is None:
            raise ImportError(f"report_to: {name} is not installed: pip install {name}")


def check_engine(args: MLEGRPOConfig, gpu_slots: Sequence[str], use_peft: bool) -> None:
    """Raises `ValueError` if FSDP or vLLM would silently do something else, or take the memory of programs."""
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        if args.use_cpu or not torch.accelerator.is_available():
            raise ValueError("FSDP needs GPUs: use ddp or zero3 on a CPU")
        if args.use_vllm and use_peft:
            raise ValueError("use_vllm: FSDP cannot merge the adapter for it: use ddp, zero2 or zero3, or no adapter")
    if gpu_slots and args.use_vllm and args.vllm_mode == "colocate":
        if not args.vllm_enable_sleep_mode:
            raise ValueError("gpu_slots: a colocated vLLM keeps its GPU memory: set vllm_enable_sleep_mode")
        if args.async_rollouts:
            raise ValueError("gpu_slots: programs run while a colocated vLLM generates: set vllm_mode to server")
