"""The training script, from arguments to the Hub; `recipes/train_mle.py` launches it."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl, TrainerState
from trl import ModelConfig, get_peft_config, get_quantization_config

from trl_mle import launching
from trl_mle.competitions import CompetitionError, TaskSet
from trl_mle.execution import Limits, SandboxError
from trl_mle.execution.options import make_executor
from trl_mle.files import alone_in, write_whole
from trl_mle.instrumentation import LmInstrumenter
from trl_mle.launching import MLEScriptArguments, Problems
from trl_mle.models import LanguageModelError
from trl_mle.rewards import MLEReward
from trl_mle.rewards.progress import ARGUMENTS_FILE, ARGUMENTS_KEPT
from trl_mle.solutions import open_results
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer, MLEProgressCallback
from trl_mle.trainer.engine.checkpoint import CannotResume
from trl_mle.trainer.engine.vllm_server import VLLMServerError
from trl_mle.trainer.gradient.objectives import find_objective


class ArgumentsCallback(TrainerCallback):
    """Writes the arguments that other commands need, when training begins: a resume may be refused before."""

    def __init__(self, arguments: dict[str, Any]):
        self.arguments = arguments

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            write_whole(Path(args.output_dir, ARGUMENTS_FILE), (json.dumps(self.arguments, indent=2) + "\n").encode())


def main(
    script_args: MLEScriptArguments, training_args: MLEGRPOConfig, model_args: ModelConfig, problems: Problems
) -> None:
    """Trains a policy."""
    # Check everything before loading the model or writing anything, and report all problems at once
    output_dir = Path(training_args.output_dir or "trainer_output")
    tasks, checkpoint, endpoint, results = TaskSet([]), None, None, None
    limits, tokenizer = Limits(script_args.program_timeout_s, script_args.program_memory_mb), None
    with problems.noted():
        script_args.check()
    with problems.noted():
        tasks = TaskSet(script_args.competitions, script_args.data_dir, script_args.holdout)
    few = []
    for name in tasks.few():
        with problems.noted():
            few.append(tasks[name])
    with problems.noted():
        launching.check_writable(output_dir)
    with problems.noted():
        results = open_results(script_args.reuse_results, output_dir)
    with problems.noted():
        checkpoint = launching.checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
        launching.check_no_other_run(output_dir, checkpoint)
        launching.check_same_run(checkpoint, script_args, training_args, tasks)
    with problems.noted():
        launching.check_engine(training_args.use_cpu)
    with problems.noted():
        launching.check_vllm(training_args, script_args.gpu_slots, model_args.use_peft)
    with problems.noted():
        launching.check_model(training_args, model_args)
    with problems.noted():
        launching.check_trackers(training_args.report_to)
    with problems.noted():
        launching.check_no_adapter(model_args.model_name_or_path)
        options = {"revision": model_args.model_revision, "trust_remote_code": training_args.trust_remote_code}
        tokenizer = launching.load_tokenizer(model_args.model_name_or_path, **options)
    with problems.noted():
        endpoint = launching.make_endpoint(script_args, training_args)
    with problems.noted():
        if training_args.push_to_hub:
            launching.check_hub(training_args)
        elif script_args.push_rollouts_to_hub:
            raise ValueError("push_rollouts_to_hub needs push_to_hub")
    with problems.noted():
        launching.check_no_evaluation(training_args)
    with problems.noted():
        further_rewards = launching.find_reward_funcs(script_args.reward_funcs)
    with problems.noted():
        find_objective(training_args)
    with ExitStack() as stack:
        with problems.noted():
            executor = stack.enter_context(make_executor(script_args, script_args.training_cores))
            launching.keep_to_training_cores(script_args.training_cores)
            for competition in few:
                executor.check(competition)
            limits = executor.limits  # with the packages that programs can really import
        with problems.noted():
            if tokenizer is not None:
                launching.check_prompts(
                    tokenizer, few, training_args.max_prompt_length, limits, training_args.begin_program
                )
        problems.gather()
        problems.report()  # exits here if there are any

        # Reward and trainer. Problems that only loading the model reveals are reported in the same way.
        asked: Any = training_args.model_init_kwargs or {}  # a dict: parsed by now
        training_args.model_init_kwargs = {
            "revision": model_args.model_revision,
            "trust_remote_code": training_args.trust_remote_code,
            "attn_implementation": model_args.attn_implementation,
            "dtype": model_args.dtype or "float32",  # under DDP, the files' 16 bits would lose small updates
        } | asked
        with problems.noted():
            instrumenter = launching.make_instrumenter(script_args, training_args, endpoint)
            reward = MLEReward(
                competitions=tasks,
                executor=executor,
                instrumenter=instrumenter,
                fail_reward=script_args.fail_reward,
                milestone_reward=script_args.milestone_reward,
                log_dir=output_dir / "executions",
                best_solutions_dir=output_dir / "best_solutions",
                results=results,
            )
            most = training_args.completions_per_process
            if training_args.async_rollouts:  # new programs queue behind the rollouts in flight
                most += training_args.max_in_flight  # type: ignore[operator]  # set by now
            launching.extend_ddp_timeout(training_args, reward.longest_s(most))
            trainer = MLEGRPOTrainer(
                model=model_args.model_name_or_path,  # type: ignore[arg-type]  # checked above
                reward_funcs=[reward, *further_rewards],
                args=training_args,
                competitions=tasks,
                quantization_config=get_quantization_config(model_args),
                peft_config=get_peft_config(model_args),
            )
        problems.report(made=[output_dir / "completions", output_dir])
        with problems.noted():
            if trainer.is_world_process_zero():
                stack.enter_context(alone_in(output_dir))
                launching.check_no_other_run(output_dir, checkpoint)  # again: another may have ended meanwhile
        problems.gather()
        problems.report()
        trainer.remove_callback(PrinterCallback if training_args.disable_tqdm else ProgressCallback)
        trainer.add_callback(MLEProgressCallback())
        arguments = asdict(script_args) | asdict(model_args) | training_args.to_dict()
        trainer.add_callback(ArgumentsCallback({name: arguments[name] for name in ARGUMENTS_KEPT}))

        # Training
        trainer.accelerator.print(executor.description)
        if checkpoint is not None:
            trainer.accelerator.print(f"Resuming from {checkpoint}.")
        try:
            with launching.full_disk_noted(output_dir):
                trainer.train(resume_from_checkpoint=checkpoint)
        except CannotResume as error:
            problems.messages.append(str(error))
            problems.report()
        except (VLLMServerError, CompetitionError, SandboxError, LanguageModelError) as error:
            problems.messages.append(str(error))
            # All processes know of the server's failure, which has saved a checkpoint; one loads a competition
            problems.report(
                "training has stopped; resume_from_checkpoint: true resumes from the last checkpoint, if any",
                once=isinstance(error, VLLMServerError),
            )

    # The policy, its card, and the Hub
    with launching.full_disk_noted(output_dir):
        trainer.save_state()  # the log of all metrics, in trainer_state.json
        trainer.save_model(training_args.output_dir, _internal_call=True)  # with its tokenizer; pushed below
        trainer.create_model_card(output_dir.resolve().name)
    trainer.accelerator.print(f"💾 Model saved to {training_args.output_dir}.")
    if isinstance(instrumenter, LmInstrumenter):
        instrumenter.model.check_frozen()
    if training_args.push_to_hub:
        with problems.noted():
            trainer.push_to_hub()
        with problems.noted():
            if script_args.push_rollouts_to_hub and trainer.is_world_process_zero():
                launching.push_rollouts(output_dir, trainer.hub_model_id, training_args.hub_private_repo)
        problems.report(f"the push to the Hub failed; everything is still in {output_dir}")
    trainer.end_training()
