"""Launches scripts as CPU processes that train together."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def launch_command(script, arguments, folder, zero_stage=0, processes=2, python=sys.executable, fsdp2=False):
    """Arguments of `subprocess.Popen` to run a script as processes that train together; FSDP2 needs GPUs."""
    config = {"compute_environment": "LOCAL_MACHINE", "num_machines": 1, "num_processes": processes}
    config |= {"machine_rank": 0, "main_process_port": 0, "mixed_precision": "no"}
    config["distributed_type"] = "MULTI_GPU" if processes > 1 else "NO"  # with use_cpu, by gloo
    if zero_stage:
        zero = {"zero_stage": zero_stage, "zero3_init_flag": zero_stage == 3, "zero3_save_16bit_model": True}
        config |= {"distributed_type": "DEEPSPEED", "deepspeed_config": zero}
    if fsdp2:
        fsdp = {"version": 2, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "reshard_after_forward": True}
        fsdp |= {"cpu_ram_efficient_loading": True, "state_dict_type": "FULL_STATE_DICT"}
        config |= {"distributed_type": "FSDP", "fsdp_config": {f"fsdp_{key}": value for key, value in fsdp.items()}}
    path = Path(folder) / "accelerate.json"
    path.write_text(json.dumps(config))
    paths = [*map(str, Path(__file__).parents[1:3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "args": [python, "-m", "accelerate.commands.launch", "--config_file", str(path), script, *arguments],
        "env": os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    }


def launch(script, arguments, folder, *, timeout_s=240, environment=None, **options):
    """Runs a script as processes that train together, killed at the timeout; returns exit status and output."""
    command = launch_command(script, arguments, folder, **options)
    command["env"] |= environment or {}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(**command, **pipes, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output
