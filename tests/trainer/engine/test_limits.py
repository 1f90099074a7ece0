"""Prompts state the limits that the executor enforces, in training, in evaluation, and after a resume."""

import json
from types import SimpleNamespace

import pytest
from support.on_cpu import ON_CPU
from support.replay_executor import ReplayExecutor

from trl_mle.competitions import load_competition
from trl_mle.evaluation.harness import Harness
from trl_mle.execution import Limits
from trl_mle.execution.program import REQUIRED
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.engine.limits import find_limits


HERE = Limits(17, 999, 1, (*REQUIRED, "torch"))
ELSEWHERE = Limits(17, 999, 1, (*REQUIRED, "xgboost"))


def make_trainer(model, output_dir, reward, competitions=("wine",), **options):
    sizes = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 4, "max_steps": 2}
    args = MLEGRPOConfig(str(output_dir), **(ON_CPU | sizes | {"save_strategy": "steps", "save_steps": 1} | options))
    return MLEGRPOTrainer(model, reward, args, competitions=list(competitions))


def make_reward(limits, competitions=("wine",)):
    executor = ReplayExecutor()
    executor.limits = limits
    return MLEReward(list(competitions), executor, show_progress=False)


def prompts(trainer):
    """A prompt from the data set, and an improve prompt."""
    solution = SimpleNamespace(competition="wine", source="x = 1", output="1", score=0.5)
    return trainer.train_dataset[0]["prompt"], trainer.solution_prompts.prompt_with(solution)


def test_prompts_state_the_executors_limits(program_model, tmp_path):
    reward, wine = make_reward(HERE), load_competition("wine")
    assert find_limits(reward, None) == HERE
    trainer = make_trainer(program_model, tmp_path, reward)
    scratch, improve = prompts(trainer)
    assert scratch == scratch_prompt(wine, HERE, begin_program=True)
    assert (
        "Limits: 17 seconds, 999 MB of memory, no network (no pip install, no pretrained weights). Installed are only "
        in scratch[0]["content"]
    )
    assert "pillow, torch.\n" in improve[0]["content"]
    harness = Harness(None, wine, reward, None, 8, 1024, reward.executor.limits, seed=0)
    assert harness.scratch_prompt(0) == scratch  # training and evaluation use the same prompt


def test_a_resumed_run_asks_what_it_asked_before(program_model, tmp_path):
    first = make_trainer(program_model, tmp_path, make_reward(HERE))
    first.train()
    asked = prompts(first)
    assert json.loads((tmp_path / "limits.json").read_text())["packages"] == list(HERE.packages)
    resumed = make_trainer(program_model, tmp_path, make_reward(ELSEWHERE))
    assert prompts(resumed) != asked
    resumed.train(resume_from_checkpoint=True)
    assert prompts(resumed) == asked
    fresh = make_trainer(program_model, tmp_path, make_reward(ELSEWHERE))
    fresh.train()
    assert prompts(fresh)[0] == scratch_prompt(load_competition("wine"), ELSEWHERE, begin_program=True)


def test_limits_of_the_trainers_own_are_for_rewards_without_an_executor():
    assert find_limits(None, HERE) == HERE
    with pytest.raises(ValueError, match="prompts state the limits of the MLEReward's executor"):
        find_limits(make_reward(HERE), ELSEWHERE)
