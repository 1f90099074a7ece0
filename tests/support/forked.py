"""Processes that train together, as `accelerate launch` starts them, forked from one that has imported everything."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from trl_mle.execution.inside.kernel import PR_SET_PDEATHSIG, prctl


CONFIGS = Path(__file__).parents[2] / "accelerate_configs"

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["trl_mle.trainer", "trl_mle.launching", "trl_mle.execution", "deepspeed", "peft"])


def accelerate_environment(config):
    """The environment variables that `accelerate launch` sets for two processes on a CPU, with one of our files."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    options = ["--config_file", str(CONFIGS / f"{config}.yaml"), "--num_processes", "2", "--mixed_precision", "no"]
    args = launch_command_parser().parse_args([*options, "--main_process_port", "0", "script.py"])
    args, defaults, _ = _validate_launch_command(args)
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
        environment = prepare_deepspeed_cmd_env(args)[1]
    else:
        environment = prepare_multi_gpu_env(args)
    return {name: value for name, value in environment.items() if os.environ.get(name) != value}


def start(target, args, log, processes=2, environment=None):
    """Starts processes that call `target(*args)`, as a launcher would; what each writes goes to `<log>-<rank>.log`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"OMP_NUM_THREADS": "1"} | (environment or {})
    with pytest.MonkeyPatch.context() as patch:  # for the fork server, which starts only once
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)]))
        patch.setenv("OMP_NUM_THREADS", "1")
        started = [
            _CONTEXT.Process(target=_work, args=(target, args, f"{log}-{rank}.log", rank, processes, port, variables))
            for rank in range(processes)
        ]
        for process in started:
            process.start()
    return started


def _work(target, args, log, rank, processes, port, variables):
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # logs are read while they are written
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the fork server ends with the tests, however they end
    os.environ |= variables
    if processes > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        os.environ |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    import torch

    torch.set_num_threads(1)
    target(*args)


def finish(started, folder, timeout_s=600):
    """Waits for processes, and fails with their logs if one of them failed."""
    deadline = time.monotonic() + timeout_s
    try:
        for process in started:
            process.join(max(1, deadline - time.monotonic()))
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.join()
    logs = "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in sorted(folder.glob("*.log")))
    assert [process.exitcode for process in started] == [0] * len(started), logs
