"""Runs the training script on two processes; the programs of one of them take long."""

import runpy
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch.distributed import distributed_c10d


SCRIPT = str(Path(__file__).parents[2] / "recipes" / "train_mle.py")


def train(seconds, timeout_s, extended, arguments):
    """Programs of the second process sleep for some seconds. The timeout of the process group is set here, because
    transformers applies `ddp_timeout` only on a GPU; the script extends it."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=300))  # until both have started
    torch.distributed.barrier()
    distributed_c10d._set_pg_timeout(timedelta(seconds=timeout_s))
    from trl_mle.launching import processes
    from trl_mle.trainer import MLEGRPOTrainer

    rank = torch.distributed.get_rank()

    def programs(trainer, prompt_ids, *args, **kwargs):
        texts = [f"import time\ntime.sleep({rank * seconds})\nprint({rank}, {i})\n" for i in range(len(prompt_ids))]
        return [trainer.processing_class(text)["input_ids"] for text in texts], None

    MLEGRPOTrainer._generate_single_turn = programs
    if not extended:
        processes.extend_ddp_timeout = lambda args, programs_s: None
    sys.argv = [SCRIPT, *arguments]
    runpy.run_path(SCRIPT, run_name="__main__")
