"""Sampling: its settings, and with vLLM its seed, its weights, and its shutdown."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list, is_peft_model, set_seed
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from trl_mle.models import without_defaults
from trl_mle.trainer.engine.vllm_server import VLLMServer, VLLMServerError
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


if TYPE_CHECKING:
    from transformers import PreTrainedModel


class VLLMTrainer(GRPOTrainer):
    """[`~trl.GRPOTrainer`] whose samples do not depend on the `generation_config.json` in the model's folder, except
    for special tokens, and with some differences for vLLM: `args.seed` determines the samples of a colocated vLLM,
    adapters are merged without changing the base model, a colocated vLLM shuts down before its process group, and a
    run whose server fails saves a checkpoint ([`~trl_mle.trainer.engine.vllm_server.VLLMServer`])."""

    args: MLEGRPOConfig
    model: "PreTrainedModel"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.vllm_server: VLLMServer | None = None
        if not self.use_vllm:
            return
        if is_peft_model(self.model):
            generation: Any = self.vllm_generation
            if generation._dist.is_fsdp:
                raise ValueError(
                    "vLLM cannot take an adapter's weights under FSDP: train with LoRA under DDP or DeepSpeed"
                )
            generation._iter_named_params = functools.partial(merged_params, generation)
        if self.vllm_mode == "server":
            self.vllm_server = VLLMServer(self.vllm_generation, self.args.vllm_request_timeout_s)
            self.vllm_generation = self.vllm_server  # type: ignore[assignment]
        if self.vllm_mode == "colocate":
            # vLLM's start seeds all generators by rank, after TRL seeded them by `seed`, and vLLM samples from them
            process, processes = self.accelerator.process_index, self.accelerator.num_processes
            set_seed(sampling_seed(self.args.seed, process, processes, self.args.vllm_tensor_parallel_size))

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple:
        with without_defaults(self.model):
            return super()._generate_single_turn(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().train(*args, **kwargs)
        except VLLMServerError:
            # All processes are here. Between two generations there is nothing to resume from
            step = self.state.global_step
            aligned = not (
                self._step % self.args.gradient_accumulation_steps or self._step % self.args.micro_steps_per_generation
            )
            state = Path(self.args.output_dir or "", f"{PREFIX_CHECKPOINT_DIR}-{step}", TRAINER_STATE_NAME)
            is_saved = [state.is_file()]
            broadcast_object_list(is_saved)  # other machines may not have access to the files
            if step and aligned and not is_saved[0]:
                self._save_checkpoint(self.model, None)
            raise

    def end_training(self) -> None:
        """Call this last: finishes trackers, shuts down a colocated vLLM, and destroys the process group."""
        if self.use_vllm and self.vllm_mode == "colocate":
            self.accelerator.wait_for_everyone()  # the engine destroys the group
            self.vllm_generation.llm.llm_engine.engine_core.shutdown()
        self.accelerator.end_training()


def sampling_seed(seed: int, process: int, processes: int, tensor_parallel_size: int) -> int:
    """The seed of a process's generators for sampling with a colocated vLLM: a different one for every run seed and
    every vLLM, the same for the processes that share one."""
    engines = processes // tensor_parallel_size
    return (seed * engines + process // tensor_parallel_size) % 2**32  # NumPy takes no more bits


def merged_params(generation: VLLMGeneration) -> Iterator[tuple[str, torch.Tensor]]:
    """
    Names and values of the weights of a policy with an adapter, in vLLM's form: each layer's base weights with the adapter
    merged into a copy. Every process must consume all of them.

    TRL merges into the base weights and subtracts again. In 16 bits this does not restore the original, so under data
    parallelism the base drifts at every synchronisation, away from the base that the saved adapter will be used with.
    Only one layer is gathered at a time, also under ZeRO-3.
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
