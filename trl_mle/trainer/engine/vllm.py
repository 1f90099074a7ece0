"""Sampling with vLLM: its seed, its weights, and a server that fails."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, is_peft_model, set_seed
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from trl_mle.trainer.engine.vllm_server import VLLMServer


def set_up(trainer: Any, request_timeout_s: float) -> VLLMServer | None:
    """Prepares vLLM for a policy: adapters are merged without changing the base model, and `args.seed` determines the
    samples of a colocated vLLM. Returns the server that takes the place of TRL's generation, if one samples."""
    if not trainer.use_vllm:
        return None
    if is_peft_model(trainer.model):
        generation: Any = trainer.vllm_generation
        generation._iter_named_params = functools.partial(merged_params, generation)
    if trainer.vllm_mode == "server":
        trainer.vllm_generation = VLLMServer(trainer.vllm_generation, request_timeout_s)
        return trainer.vllm_generation
    # vLLM's start seeds all generators by rank, after TRL seeded them by `seed`, and vLLM samples from them
    process, processes = trainer.accelerator.process_index, trainer.accelerator.num_processes
    set_seed(sampling_seed(trainer.args.seed, process, processes, trainer.args.vllm_tensor_parallel_size))
    return None


def is_between_generations(trainer: Any) -> bool:
    """Whether all completions have been trained on, and no checkpoint of this step exists."""
    args, step = trainer.args, trainer.state.global_step
    aligned = not (trainer._step % args.gradient_accumulation_steps or trainer._step % args.micro_steps_per_generation)
    state = Path(args.output_dir or "", f"{PREFIX_CHECKPOINT_DIR}-{step}", TRAINER_STATE_NAME)
    is_saved = [state.is_file()]
    broadcast_object_list(is_saved)  # other machines may not have access to the files
    return bool(step) and aligned and not is_saved[0]


def shut_down(trainer: GRPOTrainer) -> None:
    """Ends a colocated vLLM, before the process group that its engine destroys."""
    if trainer.use_vllm and trainer.vllm_mode == "colocate":
        trainer.accelerator.wait_for_everyone()
        trainer.vllm_generation.llm.llm_engine.engine_core.shutdown()


def sampling_seed(seed: int, process: int, processes: int, tensor_parallel_size: int) -> int:
    """The seed for sampling with a colocated vLLM: another for every run seed and every vLLM."""
    engines = processes // tensor_parallel_size
    return (seed * engines + process // tensor_parallel_size) % 2**32  # NumPy takes no more bits


def merged_params(generation: VLLMGeneration) -> Iterator[tuple[str, torch.Tensor]]:
    """
    Names and values of the weights of a policy with an adapter, in vLLM's form: each layer's base weights with the
    adapter merged into a copy. Every process must consume all of them.

    TRL merges into the base weights and subtracts again, which in 16 bits does not restore them: the base would drift.
    """
    model: Any = generation.model
    layers: dict[str, Any] = {
        name: module for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)
    }
    for name, param in model.named_parameters():
        if model.prefix in name or "original_module" in name:  # the adapter itself, and what a trained copy stands for
            continue
        of_layer, in_layer, _ = name.partition(".base_layer.")  # the outermost, where several are nested
        layer = layers[of_layer] if in_layer else None
        with generation._dist.gather_params([param] if layer is None else list(layer.parameters())):
            values = param.data if layer is None else _merged(layer, param)
            own_name = name.removeprefix("base_model.model.").replace(".base_layer", "")
            yield generation._fix_param_name_to_vllm(own_name, extra_prefixes=["modules_to_save.default."]), values


def _merged(layer: Any, param: torch.nn.Parameter) -> torch.Tensor:
    """A copy of a layer's weight with its adapters merged; the layer itself stays unchanged, bit for bit."""
    adapted = [module for module in layer.modules() if isinstance(module, BaseTunerLayer)]
    base = [(weight, weight.data.clone()) for weight in layer.get_base_layer().parameters()]
    for module in adapted:
        module.merge()
    merged = param.data.clone()
    for module in adapted:
        module.unmerge()
    for weight, values in base:
        weight.data.copy_(values)
    return merged
