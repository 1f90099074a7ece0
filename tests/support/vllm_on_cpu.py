"""
Runs a script with vLLM on a CPU: `python vllm_on_cpu.py SCRIPT ARGUMENTS`, in an environment that has vLLM.

TRL and vLLM are the real ones. Three functions are replaced, because they do not allow weights to change, or a server
without a GPU. `vllm serve` gets `file_weights.Extension` as the other end of the third.
"""

import functools
import os
import runpy
import sys
from pathlib import Path

import torch


ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}  # for every process that runs vLLM
if torch.cuda.is_available():  # in benchmarks/gpu.py
    ENVIRONMENT |= {"VLLM_USE_FLASHINFER_SAMPLER": "0"}  # not every GPU host has FlashInfer
else:
    ENVIRONMENT |= {"TORCHDYNAMO_DISABLE": "1", "VLLM_USE_AOT_COMPILE": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    ENVIRONMENT |= {"OMP_NUM_THREADS": "1"}
WEIGHTS_FILE = "TEST_WEIGHTS_FILE"  # environment variable: where a trainer leaves its weights for the server


def keep_weights(layer, remove_weight):
    """Replaces the function that packs weights for oneDNN as they are loaded: packed weights cannot be updated."""
    layer.cpu_linear = torch.nn.functional.linear


def init_communicator(client, device=0):
    """Replaces TRL's, which creates a process group on GPUs."""
    client._post(f"{client.base_url}/init_weight_transfer_engine", json={"init_info": {}})


def update_named_params(client, metadata, named_params):
    """Replaces TRL's, which sends the same tensors by NCCL; the calls around it are TRL's."""
    from safetensors.torch import save_file

    tensors = {name: param.detach().clone().contiguous() for name, param in named_params}
    sent = [(name, str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in tensors.items()]
    assert sent == [tuple(row) for row in metadata]
    path = os.environ[WEIGHTS_FILE]
    save_file(tensors, path)
    client._start_weight_update()
    client._post(f"{client.base_url}/update_weights", json={"update_info": {"path": path}})
    client._finish_weight_update()


def prepare():
    from trl.generation import vllm_client, vllm_generation
    from vllm.model_executor.layers import utils

    if not torch.cuda.is_available():
        utils.dispatch_cpu_unquantized_gemm = keep_weights
        vllm_generation.LLM = functools.partial(vllm_generation.LLM, dtype="float32")  # as in training; not 16 bits
    vllm_client.VLLMClient.init_communicator = init_communicator
    vllm_client.VLLMClient.update_named_params = update_named_params


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    prepare()
    runpy.run_path(sys.argv[0], run_name="__main__")
