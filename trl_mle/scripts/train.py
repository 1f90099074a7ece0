"""The training script, from arguments to the Hub; `recipes/train_mle.py` launches it."""

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trl import ModelConfig, get_peft_config, get_quantization_config

from trl_mle.competitions import CompetitionError, TaskSet
from trl_mle.execution import Executor, SandboxError
from trl_mle.execution.options import make_executor
from trl_mle.files import alone_in
from trl_mle.launching import MLEScriptArguments, checks, hub, processes
from trl_mle.launching.building import make_instrumenter
from trl_mle.launching.checks import one_line_errors
from trl_mle.models import LanguageModelError
from trl_mle.rewards import MLEReward
from trl_mle.rewards.progress import how_to_ask
from trl_mle.trainer import AsyncMLEGRPOTrainer, MLEGRPOConfig, MLEGRPOTrainer, MLEProgressCallback
from trl_mle.trainer.engine.checkpoint import CannotResume
from trl_mle.trainer.engine.vllm_server import VLLMServerError
from trl_mle.trainer.gradient.objectives import find_objective
from trl_mle.user_code import import_named


STOPPED = "training has stopped; resume_from_checkpoint: true resumes from the last checkpoint, if any"


def main(script_args: MLEScriptArguments, training_args: MLEGRPOConfig, model_args: ModelConfig) -> None:
    output_dir = Path(training_args.output_dir or "trainer_output")
    with ExitStack() as stack:
        with one_line_errors(gather=True):  # before a model is loaded or anything is written
            tasks = TaskSet(script_args.competitions, script_args.data_dir, script_args.holdout)
            checkpoint = check_arguments(output_dir, tasks, script_args, training_args, model_args)
            executor = stack.enter_context(make_executor(script_args, script_args.training_cores))
            processes.keep_to_training_cores(script_args.training_cores)
            check_programs(tasks, executor, training_args, model_args)
        with one_line_errors():
            trainer = make_trainer(tasks, executor, script_args, training_args, model_args)
        with one_line_errors(gather=True):
            if trainer.is_world_process_zero():
                stack.enter_context(alone_in(output_dir))
                checks.check_no_other_run(output_dir, checkpoint)  # again: another may have ended meanwhile
        trainer.kept_arguments |= asdict(script_args) | asdict(model_args)
        trainer.accelerator.print(executor.description)
        if checkpoint is not None:
            trainer.accelerator.print(f"Resuming from {checkpoint}.")
        with (
            # Each process that has such a problem says so: one loads a competition, for example
            one_line_errors(STOPPED, (CompetitionError, SandboxError, LanguageModelError), once=False),
            one_line_errors(STOPPED, (VLLMServerError,)),  # all processes know of it
            one_line_errors(errors=(CannotResume,)),
        ):
            trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_state()  # the log of all metrics, in trainer_state.json
    trainer.save_model(training_args.output_dir, _internal_call=True)  # with its tokenizer; pushed below
    trainer.create_model_card(output_dir.resolve().name)
    trainer.accelerator.print(f"💾 Model saved to {training_args.output_dir}.")
    with one_line_errors(f"the push to the Hub failed; everything is still in {output_dir}"):
        if training_args.push_to_hub:
            trainer.push_to_hub()
        if script_args.push_rollouts_to_hub and trainer.is_world_process_zero():
            hub.push_rollouts(output_dir, trainer.hub_model_id, training_args.hub_private_repo)
    trainer.end_training()


def check_arguments(
    output_dir: Path, tasks: TaskSet, script_args: Any, training_args: MLEGRPOConfig, model_args: ModelConfig
) -> str | None:
    """Checks what needs neither programs nor a model; returns the checkpoint to resume from, if any."""
    model, args = model_args.model_name_or_path or "", training_args
    args.begin_program, args.ideas = how_to_ask(model, args.begin_program, args.ideas)
    checkpoint = checks.checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
    checks.check_no_other_run(output_dir, checkpoint)
    checks.check_same_run(checkpoint, script_args, training_args, tasks)
    checks.check_trackers(training_args)
    find_objective(training_args)
    checks.check_engine(training_args, script_args.gpu_slots, model_args.use_peft)
    if training_args.push_to_hub:
        hub.check_hub(training_args)
    elif script_args.push_rollouts_to_hub:
        raise ValueError("push_rollouts_to_hub needs push_to_hub")
    return checkpoint


def check_programs(tasks: TaskSet, executor: Executor, args: MLEGRPOConfig, model_args: ModelConfig) -> None:
    """Loads the first competitions, runs a program on each, and measures their prompts."""
    tokenizer = checks.load_tokenizer(
        model_args.model_name_or_path, revision=model_args.model_revision, trust_remote_code=args.trust_remote_code
    )
    for name in tasks.few():
        executor.check(tasks[name])
    checks.check_prompts(tokenizer, tasks, executor.limits, args)


def make_trainer(
    tasks: TaskSet, executor: Executor, script_args: Any, training_args: MLEGRPOConfig, model_args: ModelConfig
) -> MLEGRPOTrainer:
    output_dir = Path(training_args.output_dir or "trainer_output")
    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype or "float32",  # under DDP, the files' 16 bits would lose small updates
    } | dict(training_args.model_init_kwargs or {})  # type: ignore[arg-type]  # parsed by now
    further_rewards = [import_named("reward_funcs", name) for name in script_args.reward_funcs]
    reward = MLEReward(
        competitions=tasks,
        executor=executor,
        instrumenter=make_instrumenter(script_args, training_args),
        fail_reward=script_args.fail_reward,
        milestone_reward=script_args.milestone_reward,
        log_dir=output_dir / "executions",
        best_solutions_dir=output_dir / "best_solutions",
        reuse_results=script_args.reuse_results,
    )
    most = training_args.completions_per_process
    if training_args.async_rollouts:  # new programs queue behind the rollouts in flight
        most += training_args.max_in_flight  # type: ignore[operator]  # set by now
    processes.extend_ddp_timeout(training_args, reward.longest_s(most))
    trainer_class = AsyncMLEGRPOTrainer if training_args.async_rollouts else MLEGRPOTrainer
    return trainer_class(
        model=model_args.model_name_or_path,  # type: ignore[arg-type]  # checked before
        reward_funcs=[reward, *further_rewards],
        args=training_args,
        competitions=tasks,
        callbacks=[MLEProgressCallback()],
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
