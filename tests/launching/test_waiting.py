"""Slow programs must not end a run, because its processes wait for each other."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from support import forked, slow_programs

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

    for rank in range(2):
        text = (tmp_path / "ours/executions" / f"rank-{rank}.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["outcome"] for line in lines] == ["ok", "ok"]
        assert all((line["duration_s"] > seconds) == (rank == 1) for line in lines)


def test_the_longest_that_programs_may_take(monkeypatch):
    """All of them run into their timeout twice, in the slots that the processes of a machine share."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with LocalExecutor(max_parallel=48, timeout_s=600, sandbox="none") as executor:
        assert executor.longest_s(16) == START_TIMEOUT_S + 3 * longest_round_s(600)
        assert MLEReward(["wine"], executor).longest_s(16) == 2 * executor.longest_s(16)


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
