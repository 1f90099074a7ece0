"""
Training runs whose groups are asked to improve solutions, recorded for comparison.

The policy is `program_model`: all its samples are programs. A [`ReplayExecutor`] decides their results.
"""

import json
import math
import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from transformers import TrainerCallback
from trl.distributed import DistributedBackend
from trl.models.utils import unwrap_model_for_generation

from support import forked
from support.on_cpu import ON_CPU
from support.replay_executor import ReplayExecutor
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.models.transformers_model import generate
from trl_mle.rewards import MLEReward
from trl_mle.trainer import AsyncMLEGRPOTrainer, MLEGRPOConfig, MLEGRPOTrainer


COMPETITIONS = ["wine", "diabetes"]  # scored by an accuracy, and by an error
GROUPS, GROUP_SIZE = 3, 4  # with two processes, each has half of the second group
LINES = 24  # the last tokens of `program_model`
QUESTIONS = ["Write a program.", "import pandas as pd"]  # for a trained policy
EOS = 2
ZERO_2 = {
    "zero_optimization": {"stage": 2},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}


class RecordingTrainer(MLEGRPOTrainer):
    """Records what each batch of this process was asked, what it answered and what it was given."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.turns = []

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.turns.append(
            {
                "generation": self.solution_prompts.generation,
                "prompts": [prompt[0]["content"] for prompt in prompts],
                "kinds": [example["prompt_kind"] for example in inputs],
                "parents": [example["parent_id"] for example in inputs],
                "completion_ids": completion_ids_list,
                # only when asynchronous: otherwise these numbers mean nothing beyond a step
                "rollouts": [example["rollout_id"] if self.args.async_rollouts else None for example in inputs],
                "staleness": [example["staleness"] if self.args.async_rollouts else None for example in inputs],
                # of all processes; None for a failure of ours
                "rewards": [None if math.isnan(reward) else reward for reward in rewards[:, 0].tolist()],
                "weights": [item.weight for item in self.generation_batch.completions],
            }
        )
        return rewards

    def _scored(self, rows, batch):
        output = super()._scored(rows, batch)
        self.turns[-1]["advantages"] = output["advantages"].tolist()
        return output


class ReplayTrainer(RecordingTrainer):
    """Replaces TRL's sampling by a function of the prompt, the batch and the row over all processes."""

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        start = self.accelerator.process_index * len(prompt_ids)
        completions = []
        for row, prompt in enumerate(prompt_ids, start):
            rng = random.Random(f"{len(self.turns)}-{row}-{prompt}")
            first = len(self._tokenizer) - LINES
            completions.append([first + rng.randrange(LINES) for _ in range(rng.randrange(6))] + [EOS])
        return completions, None


class StopAfter(TrainerCallback):
    """Ends a run after a number of steps, without being part of its configuration."""

    def __init__(self, steps):
        self.steps = steps

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.steps


def make_trainer(
    model,
    output_dir,
    cls=RecordingTrainer,
    wait_s=0.0,
    patient=False,
    real=False,
    competitions=COMPETITIONS,
    peft_config=None,
    **config,
):
    """A trainer for the current number of processes. Programs are replayed, or executed if `real`."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    defaults = ON_CPU | {
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "max_steps": 1000,
        "seed": 47,  # with this seed three generations have all kinds of prompts
        "per_device_train_batch_size": GROUPS * GROUP_SIZE // processes,
        "num_generations": GROUP_SIZE,
        "max_completion_length": 6,
        "improve_probability": 0.6,
        "begin_program": False,  # the policy writes whole programs, without fences
        # only lines of Python and EOS
        "generation_kwargs": {"suppress_tokens": [i for i in range(vocabulary(model) - LINES) if i != EOS]},
    }
    executor = LocalExecutor(max_parallel=2, timeout_s=20) if real else ReplayExecutor(wait_s, patient)
    reward = MLEReward(competitions, executor, AstInstrumenter(), show_progress=False)
    args = MLEGRPOConfig(str(output_dir), **(defaults | config))
    return for_args(cls, args)(model, reward, args, competitions=competitions, peft_config=peft_config)


def for_args(cls, args):
    """The class, or one that also trains asynchronously, if the arguments ask for that."""
    return type(cls.__name__, (cls, AsyncMLEGRPOTrainer), {}) if args.async_rollouts else cls


def vocabulary(model):
    return json.loads(Path(model, "config.json").read_text())["vocab_size"]


def record(trainer):
    """Everything that a run leaves behind in this process."""
    policy, state = trainer.accelerator.unwrap_model(trainer.model), trainer.accelerator.state
    whole = nullcontext()
    if DistributedBackend(trainer.accelerator).is_zero3:  # the weights are sharded
        import deepspeed

        whole = deepspeed.zero.GatheredParameters(list(policy.parameters()))
    with whole:
        weights = {name: p.detach().clone() for name, p in policy.named_parameters()}
    return {
        "engine": state.distributed_type.value,
        "processes": state.num_processes,
        "zero_stage": state.deepspeed_plugin.zero_stage if state.deepspeed_plugin is not None else None,
        "turns": trainer.turns,
        "pool": trainer.solution_prompts.pool.state_dict(),
        "generation": trainer.solution_prompts.generation,
        "weights": weights,
        "rng": [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()],
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "ledger": trainer.rollouts.ledger.state_dict() if trainer.is_asynchronous else None,
        "mean_duration": trainer.weighting.state_dict(),
    }


def run(
    model,
    output_dir,
    steps,
    resume_from_checkpoint=None,
    cls=RecordingTrainer,
    save=False,
    to_be_killed=False,
    **options,
):
    """Trains up to a step, saves the model if asked to, and returns the record, or waits to be killed."""
    trainer = make_trainer(model, output_dir, cls, **options)
    trainer.add_callback(StopAfter(steps))
    trainer.train(resume_from_checkpoint=resume_from_checkpoint)
    if to_be_killed:
        signal.pause()
    [reward] = trainer.reward_funcs
    reward.executor.close()
    results = record(trainer)
    if save:
        trainer.save_model()
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as policy:
            results["answers"] = generate(policy.eval(), trainer.processing_class, QUESTIONS, max_tokens=8)
    return results


def start(folder, runs, processes, environment=None):
    """
    Starts processes, as a launcher would, that do the runs one after the other and write the records to
    `<folder>/<name>-<rank>.pt`.
    """
    return forked.start(_work, (folder, runs), folder / next(iter(runs)), processes, environment)


def _work(folder, runs):
    rank, processes = os.environ.get("RANK", "0"), int(os.environ.get("WORLD_SIZE", "1"))
    for name, options in runs.items():
        torch.save(run(output_dir=folder / name, **options), folder / f"{name}-{rank}.pt")
    if processes > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def finish(started, folder, name, timeout_s=200):
    """Waits for the processes and returns the records of a run, by rank."""
    forked.finish(started, folder, timeout_s)
    return [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in range(len(started))]
