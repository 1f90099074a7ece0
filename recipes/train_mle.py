"""
Train a language model to solve Kaggle competitions by writing programs (https://huggingface.co/papers/2509.01684).

    accelerate launch --config_file accelerate_configs/cpu.yaml recipes/train_mle.py --config recipes/quickstart.yaml

The command line wins over the YAML. Go on after a crash with `--resume_from_checkpoint true`.
"""

import argparse
import ctypes
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class MLEScriptArguments:
    """Arguments beside those of [`~trl_mle.trainer.MLEGRPOConfig`] and [`~trl.ModelConfig`]; see their help."""

    competitions: list[str] = field(default_factory=list, metadata={"help": "Ids of the competitions to train on."})
    data_dir: str | None = field(default=None, metadata={"help": "Folder with the prepared MLE-bench competitions."})
    program_timeout_s: float = field(default=60.0, metadata={"help": "Wall-clock limit of one program in seconds."})
    program_memory_mb: int = field(default=4096, metadata={"help": "Memory limit of one program in MB."})
    max_parallel_programs: int | None = field(default=None, metadata={"help": "At a time, on one machine."})
    ray_address: str | None = field(
        default=None, metadata={"help": "A Ray cluster to run the programs on, or `auto`."}
    )
    threads_per_program: int = field(default=1, metadata={"help": "Cores of one program."})
    sandbox: str = field(
        default="auto", metadata={"help": "`auto`, `bubblewrap`, `landlock`, or `none`: no isolation."}
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
    best_of_n: int = field(
        default=0,
        metadata={"help": "Every `best_of_n_steps` steps, sample so many programs per competition and log the best."},
    )
    best_of_n_steps: int = field(default=10, metadata={"help": "Steps from one best of N to the next."})

    def __post_init__(self) -> None:
        if isinstance(self.competitions, str):  # `competitions: digits` in a YAML
            self.competitions = [self.competitions]
        if not self.competitions:
            raise ValueError("competitions: name at least one")
        for name, least in (("best_of_n", 0), ("best_of_n_steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.instrumenter not in ("ast", "lm", "none"):
            raise ValueError(f"instrumenter must be 'ast', 'lm' or 'none', got {self.instrumenter!r}")


def main(script_args, training_args, model_args) -> None:
    from transformers import PrinterCallback, ProgressCallback
    from trl import get_peft_config, get_quantization_config

    from trl_mle import execution
    from trl_mle.competitions import load_competition
    from trl_mle.evaluation.best_of_n_callback import BestOfNCallback
    from trl_mle.instrumentation import LmInstrumenter, PolicyBaseModel
    from trl_mle.rewards import MLEReward
    from trl_mle.trainer import MLEGRPOTrainer, MLEProgressCallback

    # All that can be wrong with the input is checked before the model is loaded and before anything is written
    with one_line_errors():
        competitions = [load_competition(name, script_args.data_dir) for name in script_args.competitions]
        output_dir = Path(training_args.output_dir)
        check_writable(output_dir)
        checkpoint = checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
        check_chat_template(model_args, training_args)
        instrumenter = make_instrumenter(script_args, training_args)
        options = {
            "timeout_s": script_args.program_timeout_s,
            "memory_mb": script_args.program_memory_mb,
            "max_parallel": script_args.max_parallel_programs,
            "threads_per_program": script_args.threads_per_program,
            "sandbox": script_args.sandbox,
        }
        address = script_args.ray_address
        executor = execution.RayExecutor(address, **options) if address else execution.LocalExecutor(**options)

    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
    } | (training_args.model_init_kwargs or {})

    with executor:
        reward = MLEReward(
            competitions=competitions,
            executor=executor,
            instrumenter=instrumenter,
            fail_reward=script_args.fail_reward,
            milestone_reward=script_args.milestone_reward,
            log_dir=output_dir / "executions",
            best_solutions_dir=output_dir / "best_solutions",
        )
        with one_line_errors(output_dir):
            for competition in competitions:
                executor.check(competition)
            trainer = MLEGRPOTrainer(
                model=model_args.model_name_or_path,
                reward_funcs=reward,
                args=training_args,
                competitions=competitions,
                timeout_s=script_args.program_timeout_s,
                memory_mb=script_args.program_memory_mb,
                quantization_config=get_quantization_config(model_args),
                peft_config=get_peft_config(model_args),
            )
            if isinstance(instrumenter, LmInstrumenter) and isinstance(instrumenter.model, PolicyBaseModel):
                instrumenter.model.bind(trainer, instrumenter.mode)
        trainer.remove_callback(PrinterCallback if training_args.disable_tqdm else ProgressCallback)
        trainer.add_callback(MLEProgressCallback())
        if script_args.best_of_n:
            fresh = MLEReward(competitions, executor, instrumenter, log_dir=output_dir / "evaluations")
            trainer.add_callback(BestOfNCallback(trainer, fresh, script_args.best_of_n, script_args.best_of_n_steps))
        trainer.accelerator.print(executor.description)
        trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_state()  # the log of all metrics, in trainer_state.json
    trainer.save_model(training_args.output_dir)  # with its tokenizer
    trainer.accelerator.print(f"💾 Model saved to {training_args.output_dir}.")
    if isinstance(instrumenter, LmInstrumenter):
        instrumenter.model.check_frozen()
    if training_args.push_to_hub:
        trainer.push_to_hub()
    trainer.accelerator.end_training()  # finishes trackers, destroys the process group


def make_instrumenter(script_args, training_args):
    """What marks the milestones. Raises `LanguageModelError` if an endpoint does not answer, or is the policy's own."""
    from transformers.integrations import unset_hf_deepspeed_config

    from trl_mle.instrumentation import (
        AstInstrumenter,
        EndpointModel,
        LmInstrumenter,
        PolicyBaseModel,
        TransformersModel,
    )

    if script_args.instrumenter != "lm":
        return AstInstrumenter() if script_args.instrumenter == "ast" else None
    if script_args.instrumenter_url is not None:
        model = EndpointModel(
            script_args.instrumenter_url,
            script_args.instrumenter_model,
            deadline_s=script_args.instrumenter_deadline_s,
        )
        if training_args.use_vllm and training_args.vllm_mode == "server":
            address = f"{training_args.vllm_server_host}:{training_args.vllm_server_port}"
            model.check_is_not(training_args.vllm_server_base_url or address)
    elif script_args.instrumenter_model is not None:
        # Whole in every process: ZeRO-3 would split what is loaded while it is announced to transformers
        unset_hf_deepspeed_config()
        model = TransformersModel(script_args.instrumenter_model, training_args.device)
        if training_args.deepspeed_plugin is not None:
            training_args.deepspeed_plugin.set_deepspeed_weakref()
    else:
        model = PolicyBaseModel()
    return LmInstrumenter(model, script_args.instrumenter_mode)


def check_writable(folder: Path) -> None:
    """Raise `OSError` if nothing can be written to the folder, without creating it."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise OSError(f"output_dir {folder} cannot be written: {error.strerror}") from error


def checkpoint_to_resume(value: str | bool | None, folder: Path) -> str | None:
    """The checkpoint that `resume_from_checkpoint` names: a path, or `true` for the newest whole one in `folder`."""
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
    from transformers import TrainerState

    try:
        TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError):
        return False
    return True


def check_chat_template(model_args, training_args) -> None:
    """Raise `ValueError` if the model's tokenizer has no chat template, `OSError` if it cannot be loaded."""
    from transformers import AutoTokenizer

    if (name := model_args.model_name_or_path) is None:
        raise ValueError("model_name_or_path: name the model to train")
    options = {"revision": model_args.model_revision, "trust_remote_code": training_args.trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        where = "" if Path(name).is_dir() else ", which is no folder here"
        raise OSError(f"model_name_or_path: cannot load the tokenizer of {name}{where}: {error}") from error
    if tokenizer.chat_template is None:
        raise ValueError(f"model_name_or_path: {name} has no chat template, take an instruction-tuned model")


def make_parser(prog: str | None = None):
    from trl import ModelConfig, TrlParser

    from trl_mle.trainer import MLEGRPOConfig

    # What warns is TRL's own default; and a usage would bury a message below some hundred options
    warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
    return TrlParser((MLEScriptArguments, MLEGRPOConfig, ModelConfig), prog=prog, usage=argparse.SUPPRESS)


@contextmanager
def one_line_errors(output_dir: Path | None = None) -> Iterator[None]:
    """What is wrong with the input is said in one line, with exit code 2, and leaves no empty folders behind."""
    from yaml import YAMLError

    from trl_mle.execution import SandboxError

    try:
        yield
    except (ValueError, OSError, ImportError, YAMLError, SandboxError) as error:
        for folder in (output_dir / "completions", output_dir) if output_dir else ():
            with suppress(OSError):  # not there, or not empty
                folder.rmdir()
        if os.environ.get("LOCAL_RANK", "0") == "0":  # once per machine
            print(f"{Path(sys.argv[0]).name}: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def die_with_launcher() -> None:
    """Leave no process behind, however the run ends."""
    # A launcher that is killed itself (SIGKILL, out of memory) cannot end its workers: the orphans would hold their
    # memory and go on executing programs. So the kernel ends them.
    libc, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
    if "ACCELERATE_MIXED_PRECISION" in os.environ or "LOCAL_RANK" in os.environ:  # set by every launcher
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def leave(signum: int, frame: object) -> None:
        libc.prctl(PR_SET_PDEATHSIG, 0)  # the launcher may be gone before the executor has cleaned up
        os.write(2, f"\n{Path(sys.argv[0]).name}: stopped by {signal.Signals(signum).name}\n".encode())
        sys.exit(128 + signum)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, leave)


if __name__ == "__main__":
    die_with_launcher()
    with one_line_errors():
        arguments = make_parser().parse_args_and_config()
    main(*arguments)
