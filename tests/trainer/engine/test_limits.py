"""Prompts state the limits that the executor enforces, in training, in evaluation, and after a resume."""

from types import SimpleNamespace

import pytest
from support.on_cpu import ON_CPU
from support.replay_executor import ReplayExecutor

from trl_mle.competitions import load_competition
from trl_mle.evaluation.harness import Harness
from trl_mle.execution import Limits
from trl_mle.execution.program import REQUIRED
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.engine.limits import find_limits


HERE = Limits(17, 999, 1, (*REQUIRED, "torch"))
ELSEWHERE = Limits(17, 999, 1, (*REQUIRED, "xgboost"))


def make_reward(limits):
    executor = ReplayExecutor()
    executor.limits = limits
    return MLEReward(["wine"], executor, show_progress=False)


def make_trainer(model, output_dir, limits):
    sizes = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 4, "max_steps": 2}
    args = MLEGRPOConfig(str(output_dir), **(ON_CPU | sizes | {"save_strategy": "steps", "save_steps": 1}))
    return MLEGRPOTrainer(model, make_reward(limits), args, competitions=["wine"])


def prompts(trainer):
    """A prompt from the data set, and an improve prompt."""
    solution = SimpleNamespace(competition="wine", source="x = 1", output="1", score=0.5)
    return trainer.train_dataset[0]["prompt"], trainer.solution_prompts.prompt_with(solution)


def test_prompts_state_the_executors_limits_also_after_a_resume(program_model, tmp_path):
    first = make_trainer(program_model, tmp_path, HERE)
    scratch, improve = before = prompts(first)
    assert "Limits: 17 seconds, 999 MB of memory" in scratch[0]["content"]
    assert "pillow, torch.\n" in improve[0]["content"]
    harness = Harness(None, load_competition("wine"), make_reward(HERE), None, 8, 1024, HERE, seed=0)
    assert harness.scratch(0).prompt == scratch  # training and evaluation use the same prompt
    first.train()
    resumed = make_trainer(program_model, tmp_path, ELSEWHERE)
    assert prompts(resumed) != before
    resumed.train(resume_from_checkpoint=True)
    assert prompts(resumed) == before


def test_limits_of_the_trainers_own_are_for_rewards_without_an_executor():
    assert find_limits(None, HERE) == HERE
    with pytest.raises(ValueError, match="prompts state the limits of the MLEReward's executor"):
        find_limits(make_reward(HERE), ELSEWHERE)
