"""Launches scripts as CPU processes that train together."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def launch_command(script, arguments, folder, zero_stage=0, processes=2, python=sys.executable, fsdp2=False):
    """
    Arguments of `subprocess.Popen` to run a script as processes that train together.

    Args:
        script (`str`):
            Path of the script.
        arguments (`list[str]`):
            Arguments of the script.
        folder (`Path`):
            Folder for the launcher's configuration.
        zero_stage (`int`, *optional*, defaults to `0`):
            ZeRO stage of DeepSpeed; 0 for plain data parallelism.
        processes (`int`, *optional*, defaults to `2`):
            Number of processes.
        python (`str`, *optional*):
            Interpreter of the processes. Defaults to this process's.
        fsdp2 (`bool`, *optional*, defaults to `False`):
            Whether FSDP2 shards the weights, which needs GPUs.

    Returns:
        `dict`: The arguments `args` and `env`.
    """
    config = {
        "compute_environment": "LOCAL_MACHINE",
        # With use_cpu, processes communicate by gloo
        "distributed_type": "DEEPSPEED" if zero_stage else "MULTI_GPU" if processes > 1 else "NO",
        "num_machines": 1,
        "num_processes": processes,
        "machine_rank": 0,
        "main_process_port": 0,
        "mixed_precision": "no",
    }
    if zero_stage:
        config["deepspeed_config"] = {
            "zero_stage": zero_stage,
            "zero3_init_flag": zero_stage == 3,
            "zero3_save_16bit_model": True,
        }
    if fsdp2:
        fsdp = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
        }
        fsdp |= {"fsdp_cpu_ram_efficient_loading": True, "fsdp_state_dict_type": "FULL_STATE_DICT"}
        config |= {"distributed_type": "FSDP", "fsdp_config": fsdp}
    path = Path(folder) / "accelerate.json"
    path.write_text(json.dumps(config))
    paths = [*map(str, Path(__file__).parents[1:3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "args": [python, "-m", "accelerate.commands.launch", "--config_file", str(path), script, *arguments],
        "env": os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    }


def launch(script, arguments, folder, *, timeout_s=240, environment=None, **options):
    """
    Runs a script as processes that train together.

    Args:
        script, arguments, folder, **options:
            As for `launch_command`.
        environment (`dict[str, str]`, *optional*):
            Additional environment variables.
        timeout_s (`float`, *optional*, defaults to `240`):
            Seconds after which all processes are killed and the test fails.

    Returns:
        `tuple[int, str]`: Exit status, and output (stdout and stderr).
    """
    command = launch_command(script, arguments, folder, **options)
    command["env"] |= environment or {}
    process = subprocess.Popen(
        **command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output
