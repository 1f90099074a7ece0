"""Slow programs must not end a run, but a process that dies must."""

import json
import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
from support import forked, slow_programs
from support.launch import launch_command

from trl_mle.execution import LocalExecutor
from trl_mle.execution.executor import START_TIMEOUT_S, longest_round_s
from trl_mle.launching import extend_ddp_timeout
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig


def arguments(model, output_dir, *more):
    quickstart = Path(slow_programs.SCRIPT).parent / "quickstart.yaml"
    small = ["--max_prompt_length", "4000", "--max_completion_length", "64", "--per_device_train_batch_size", "2"]
    small += ["--num_generations", "2", "--competitions", "wine", "--max_steps", "1"]
    small += ["--max_parallel_programs", "16"]  # all can sleep at the same time, and others do not delay them
    small += ["--program_timeout_s", "300", "--save_strategy", "no"]
    return ["--config", str(quickstart), "--model_name_or_path", model, "--output_dir", str(output_dir), *small, *more]


@pytest.mark.slow
def test_a_slow_program_does_not_end_the_run(tiny_model, tmp_path):
    """Without the extension of the timeout, the same run ends. Both run at the same time."""
    seconds, timeout_s = 15.0, 6.0
    started = {}
    for name in ("ours", "stock"):
        options = arguments(tiny_model, tmp_path / name, "--ddp_timeout", f"{timeout_s:g}")
        work = seconds, timeout_s, name == "ours", options
        started[name] = forked.start(slow_programs.train, work, tmp_path / name)
    first = started["stock"][0]
    first.join(300)
    for process in started["stock"]:
        process.kill()
    logs = "".join((tmp_path / f"stock-{rank}.log").read_text() for rank in range(2))
    assert first.exitcode not in (0, None), logs[-3000:]
    assert "timed out" in logs.lower(), logs[-3000:]  # one reports this, and the other that the first has gone
    forked.finish(started["ours"], tmp_path)

    state = json.loads((tmp_path / "ours" / "trainer_state.json").read_text())
    assert state["global_step"] == 1
    for rank in range(2):
        text = (tmp_path / "ours/executions" / f"rank-{rank}.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["outcome"] for line in lines] == ["ok", "ok"]
        assert all((line["duration_s"] > seconds) == (rank == 1) for line in lines)


@pytest.mark.slow
def test_killed_process_ends_the_launch_and_all_programs(tiny_model, tmp_path):
    script = slow_programs.__file__
    command = launch_command(script, ["600", "1800", "True", *arguments(tiny_model, tmp_path / "policy")], tmp_path)
    command["env"] |= {"PYTHONUNBUFFERED": "1"}
    with (tmp_path / "log").open("w") as log:
        launcher = subprocess.Popen(**command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + 180
        # Training has begun, and programs of the second process are asleep
        while (
            "at a time on" not in (tmp_path / "log").read_text()
            or len(asleep := programs(trainers(launcher)["1"])) < 2
        ):
            assert launcher.poll() is None, (tmp_path / "log").read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        family = psutil.Process(launcher.pid).children(recursive=True)
        assert set(asleep) <= set(family)
        trainers(launcher)["1"].kill()
        assert launcher.wait(timeout=60) != 0
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
    finally:
        if launcher.poll() is None:
            os.killpg(launcher.pid, signal.SIGKILL)


def trainers(launcher):
    """The training processes, by rank."""
    scripts = [
        process
        for process in psutil.Process(launcher.pid).children()
        if any(word.endswith("slow_programs.py") for word in process.cmdline())
    ]
    return {process.environ()["RANK"]: process for process in scripts}


def programs(trainer):
    """The processes that run programs, below the warm parent (a trainer's child or grandchild), without brief probes."""
    below = [child for parent in trainer.children() for child in parent.children()]
    deep = {process for child in below for process in child.children(recursive=True)}
    return [process for process in deep if process.is_running() and process.create_time() < time.time() - 3]


@pytest.mark.parametrize(("processes", "programs", "slots", "rounds"), [(1, 9, 8, 2), (8, 16, 48, 3)])
def test_the_longest_that_programs_may_take(monkeypatch, processes, programs, slots, rounds):
    """All of them run into their timeout twice, in the slots that the processes of a machine share."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    with LocalExecutor(max_parallel=slots, timeout_s=600, sandbox="none") as executor:
        assert executor.longest_s(programs) == START_TIMEOUT_S + rounds * longest_round_s(600)
        assert MLEReward(["wine"], executor).longest_s(programs) == 2 * executor.longest_s(programs)


def test_the_process_groups_timeout_is_set(tmp_path):
    args = MLEGRPOConfig(str(tmp_path), use_cpu=True, bf16=False, ddp_timeout=30)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1, timeout=timedelta(seconds=30)
    )
    try:
        extend_ddp_timeout(args, 89.5)
        group = torch.distributed.distributed_c10d._get_default_group()
        assert args.ddp_timeout == 120
        assert group._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=120)
    finally:
        torch.distributed.destroy_process_group()
