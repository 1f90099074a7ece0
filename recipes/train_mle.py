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
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
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
    gpu_slots: list[str] = field(
        default_factory=list,
        metadata={"help": "GPUs for programs, one for each that runs, as `CUDA_VISIBLE_DEVICES` names them."},
    )
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


def main(script_args, training_args, model_args, problems) -> None:
    from transformers import PrinterCallback, ProgressCallback
    from trl import get_peft_config, get_quantization_config

    from trl_mle import execution, launching
    from trl_mle.competitions import load_competition
    from trl_mle.evaluation.best_of_n_callback import BestOfNCallback
    from trl_mle.instrumentation import LmInstrumenter, PolicyBaseModel
    from trl_mle.rewards import MLEReward
    from trl_mle.trainer import MLEGRPOTrainer, MLEProgressCallback

    # All that can be wrong is looked for before the model is loaded and before anything is written, and reported at once
    output_dir = Path(training_args.output_dir or "trainer_output")
    competitions, checkpoint, endpoint = [], None, None
    limits = {"timeout_s": script_args.program_timeout_s, "memory_mb": script_args.program_memory_mb}
    with problems.noted():
        script_args.check()
    for name in script_args.competitions:
        with problems.noted():
            competitions.append(load_competition(name, script_args.data_dir))
    with problems.noted():
        launching.check_writable(output_dir)
    with problems.noted():
        checkpoint = launching.checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
    with problems.noted():
        launching.check_engine(training_args.use_cpu, script_args.best_of_n)
    with problems.noted():
        launching.check_vllm(training_args, script_args.gpu_slots)
    with problems.noted():
        launching.check_model(training_args, model_args)
    with problems.noted():
        options = {"revision": model_args.model_revision, "trust_remote_code": training_args.trust_remote_code}
        tokenizer = launching.load_tokenizer(model_args.model_name_or_path, **options)
        launching.check_prompts(tokenizer, competitions, training_args.max_prompt_length, **limits)
    with problems.noted():
        endpoint = make_endpoint(script_args, training_args)
        if asks_base_model(script_args) and not model_args.use_peft and training_args.beta == 0:
            raise ValueError(
                "there is no base model to instrument with: train with LoRA (use_peft) or beta > 0, or give "
                "instrumenter_url or instrumenter_model"
            )
    with problems.noted():
        if training_args.push_to_hub:
            launching.check_hub(training_args)
        elif script_args.push_rollouts_to_hub:
            raise ValueError("push_rollouts_to_hub needs push_to_hub")
    with problems.noted():
        if script_args.ray_address and training_args.duration_weighting == "inclusion":
            raise ValueError(
                "duration_weighting: inclusion needs to know since when programs run, which a Ray cluster does not tell: run "
                "them on this machine (without ray_address), or take linear or none"
            )
    with ExitStack() as stack:
        with problems.noted():
            executor = stack.enter_context(make_executor(execution, script_args, limits))
            for competition in competitions:
                executor.check(competition)
        problems.gather()
        problems.report()  # and ends here if there are any

        training_args.model_init_kwargs = {
            "revision": model_args.model_revision,
            "trust_remote_code": training_args.trust_remote_code,
            "attn_implementation": model_args.attn_implementation,
            "dtype": model_args.dtype or "float32",  # the files' 16 bits would lose small updates under DDP
        } | (training_args.model_init_kwargs or {})
        with problems.noted():
            instrumenter = make_instrumenter(script_args, training_args, endpoint)
            reward = MLEReward(
                competitions=competitions,
                executor=executor,
                instrumenter=instrumenter,
                fail_reward=script_args.fail_reward,
                milestone_reward=script_args.milestone_reward,
                log_dir=output_dir / "executions",
                best_solutions_dir=output_dir / "best_solutions",
            )
            most = max(training_args.completions_per_process, script_args.best_of_n * len(competitions))
            if training_args.async_rollouts:  # evaluations queue behind what is in flight
                most += training_args.max_in_flight
            launching.extend_ddp_timeout(training_args, reward.longest_s(most))
            trainer = MLEGRPOTrainer(
                model=model_args.model_name_or_path,
                reward_funcs=reward,
                args=training_args,
                competitions=competitions,
                quantization_config=get_quantization_config(model_args),
                peft_config=get_peft_config(model_args),
                **limits,
            )
            if isinstance(instrumenter, LmInstrumenter) and isinstance(instrumenter.model, PolicyBaseModel):
                instrumenter.model.bind(trainer, instrumenter.mode)
        problems.report(made=[output_dir / "completions", output_dir])
        trainer.remove_callback(PrinterCallback if training_args.disable_tqdm else ProgressCallback)
        trainer.add_callback(MLEProgressCallback())
        if script_args.best_of_n:
            fresh = MLEReward(competitions, executor, instrumenter, log_dir=output_dir / "evaluations")
            trainer.add_callback(BestOfNCallback(trainer, fresh, script_args.best_of_n, script_args.best_of_n_steps))
        trainer.accelerator.print(executor.description)
        trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_state()  # the log of all metrics, in trainer_state.json
    trainer.save_model(training_args.output_dir, _internal_call=True)  # with its tokenizer; pushed below
    trainer.create_model_card(output_dir.name)
    trainer.accelerator.print(f"💾 Model saved to {training_args.output_dir}.")
    if isinstance(instrumenter, LmInstrumenter):
        instrumenter.model.check_frozen()
    if training_args.push_to_hub:
        with problems.noted():
            trainer.push_to_hub()
        with problems.noted():
            if script_args.push_rollouts_to_hub and trainer.is_world_process_zero():
                launching.push_rollouts(output_dir, trainer.hub_model_id, training_args.hub_private_repo)
        problems.report(f"the push to the Hub failed, and nothing is lost in {output_dir}")
    trainer.accelerator.end_training()  # finishes trackers, destroys the process group


def make_executor(execution, script_args, limits):
    """What runs the programs. Raises `ValueError` if no program could, `SandboxError` if they cannot be isolated."""
    for name in ("program_timeout_s", "program_memory_mb", "threads_per_program"):
        if getattr(script_args, name) <= 0:
            raise ValueError(f"{name} must be positive, got {getattr(script_args, name)}")
    options = limits | {
        "max_parallel": script_args.max_parallel_programs,
        "threads_per_program": script_args.threads_per_program,
        "sandbox": script_args.sandbox,
    }
    if script_args.ray_address:
        return execution.RayExecutor(script_args.ray_address, num_gpus=bool(script_args.gpu_slots), **options)
    return execution.LocalExecutor(gpus=script_args.gpu_slots, **options)


def make_endpoint(script_args, training_args):
    """The instrumenting model's endpoint, if it has one. Raises `LanguageModelError` if it does not answer."""
    from trl_mle.instrumentation import EndpointModel

    if script_args.instrumenter != "lm" or script_args.instrumenter_url is None:
        return None
    model = EndpointModel(
        script_args.instrumenter_url,
        script_args.instrumenter_model,
        deadline_s=script_args.instrumenter_deadline_s,
    )
    if training_args.use_vllm and training_args.vllm_mode == "server":
        address = f"{training_args.vllm_server_host}:{training_args.vllm_server_port}"
        model.check_is_not(training_args.vllm_server_base_url or address)
    return model


def asks_base_model(script_args):
    """Whether the policy's own base model is to mark the milestones."""
    named = script_args.instrumenter_url or script_args.instrumenter_model
    return script_args.instrumenter == "lm" and not named


def make_instrumenter(script_args, training_args, endpoint=None):
    """What marks the milestones."""
    from transformers.integrations import unset_hf_deepspeed_config

    from trl_mle.instrumentation import AstInstrumenter, LmInstrumenter, PolicyBaseModel, TransformersModel

    if script_args.instrumenter != "lm":
        return AstInstrumenter() if script_args.instrumenter == "ast" else None
    if endpoint is not None:
        model = endpoint
    elif script_args.instrumenter_model is not None:
        # Whole in every process: ZeRO-3 would split what is loaded while it is announced to transformers
        unset_hf_deepspeed_config()
        model = TransformersModel(script_args.instrumenter_model, training_args.device)
        if training_args.deepspeed_plugin is not None:
            training_args.deepspeed_plugin.set_deepspeed_weakref()
    else:
        model = PolicyBaseModel()
    return LmInstrumenter(model, script_args.instrumenter_mode)


def make_parser():
    from trl import ModelConfig, TrlParser

    from trl_mle.trainer import MLEGRPOConfig

    class Parser(TrlParser):
        """Remembers what was asked for: a configuration that is refused must not hide what else is wrong."""

        asked: argparse.Namespace | None = None

        def parse_known_args(self, args=None, namespace=None):
            namespace, remaining = super().parse_known_args(args, namespace)
            self.asked = argparse.Namespace(**vars(namespace))
            return namespace, remaining

    # What warns is TRL's own default; and a usage would bury a message below some hundred options
    warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
    parser = Parser((MLEScriptArguments, MLEGRPOConfig, ModelConfig), usage=argparse.SUPPRESS)
    parser.set_defaults(lora_dropout=0.0)  # TRL's 0.05 makes noise of every ratio to a stored log-probability
    return parser


def parse():
    """The arguments, and what is wrong with them."""
    from trl_mle.launching import Problems

    parser, problems = make_parser(), Problems()
    with problems.noted():
        return *parser.parse_args_and_config(), problems
    if parser.asked is None:  # the YAML could not be read
        problems.report()
    asked = parser.asked
    script_args = MLEScriptArguments(**{item.name: getattr(asked, item.name) for item in fields(MLEScriptArguments)})
    return script_args, asked, asked, problems


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
    main(*parse())
