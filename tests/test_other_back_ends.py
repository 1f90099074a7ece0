"""A back end that is not in this package: everything that runs programs accepts it."""

import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.fake_executor import SOLUTION
from support.on_cpu import ON_CPU
from support.subprocess_executor import SubprocessExecutor

from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.execution.options import ExecutorArguments, make_executor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.trainer import AsyncMLEGRPOTrainer, MLEGRPOConfig


def test_its_programs_are_rewarded():
    with SubprocessExecutor() as executor:
        reward = MLEReward(["wine"], executor, AstInstrumenter(), show_progress=False)
        evaluation = reward.evaluate(SOLUTION, "wine")
        assert evaluation.valid
        assert evaluation.reward > 0.8
        assert len(evaluation.milestones) > 3
        results = executor.run_many([(f"print({i})", load_competition("wine")) for i in range(3)])
        assert [result.stdout for result in results] == ["0\n", "1\n", "2\n"]
        assert reward.longest_s(4) == 2 * 4 * 30
    assert executor.closed


def test_an_exception_in_one_of_its_threads_ends_the_run(monkeypatch):
    """Nobody would wait for a program whose thread has ended."""
    monkeypatch.setattr(SubprocessExecutor, "limits", Limits(timeout_s=0.01))  # which its subprocess.run raises
    with SubprocessExecutor() as executor, pytest.raises(subprocess.TimeoutExpired):
        MLEReward(["wine"], executor, show_progress=False).evaluate(SOLUTION, "wine")


def test_it_trains(solution_model, tmp_path):
    config = {"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 4}
    config |= {"async_rollouts": True, "max_in_flight": 8} | ON_CPU | solution_model.options
    args = MLEGRPOConfig(str(tmp_path), max_steps=2, begin_program=False, **config)
    with SubprocessExecutor() as executor:
        reward = MLEReward(["wine"], executor, show_progress=False, reuse_results=True)
        trainer = AsyncMLEGRPOTrainer(solution_model.path, reward, args, competitions=["wine"])
        trainer.train()
        assert executor.count >= 2  # a completion may be empty, or a repeat
    last = [entry for entry in trainer.state.log_history if "reward" in entry][-1]
    assert last["mle/outcome/ok_rate"] > 0
    assert 0 <= last["mle/reuse/rate"] <= 1
    assert last["mle/reuse/saved_s"] >= 0


def test_every_command_asks_for_a_back_end_in_the_same_way(monkeypatch):
    asked = {}
    ray = SimpleNamespace(RayExecutor=lambda address, **options: asked.update(options, address=address))
    monkeypatch.setitem(sys.modules, "trl_mle.execution.ray_executor", ray)
    make_executor(ExecutorArguments(program_timeout_s=5.0, program_memory_mb=512, ray_address="auto", gpu_slots=["0"]))
    assert (asked["address"], asked["timeout_s"], asked["memory_mb"], asked["num_gpus"]) == ("auto", 5.0, 512, True)
    with pytest.raises(ValueError, match="max_parallel_programs must be at least 1"):
        make_executor(ExecutorArguments(max_parallel_programs=0))
    with pytest.raises(ValueError, match="program_timeout_s must be positive and finite"):
        make_executor(ExecutorArguments(program_timeout_s=math.nan))
