"""Signatures of the TRL methods that [`MLEGRPOTrainer`] overrides or calls, in the supported versions."""

import inspect

import trl
from transformers import Trainer
from trl import GRPOTrainer
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration


# Names of their parameters; more may follow if the last one is "..."
HOOKS: dict[tuple[type, str], tuple[str, ...]] = {
    (GRPOTrainer, "_calculate_rewards"): ("inputs", "prompts", "completions", "completion_ids_list"),
    (GRPOTrainer, "_generate_and_score_completions"): ("inputs",),
    (GRPOTrainer, "_tokenize_prompts"): ("prompts",),
    (GRPOTrainer, "_generate"): ("prompts",),
    (GRPOTrainer, "_get_per_token_logps_and_entropies"): (
        *("model", "input_ids", "attention_mask", "logits_to_keep"),
        *("batch_size", "..."),
    ),
    (GRPOTrainer, "log"): ("logs", "start_time"),
    (GRPOTrainer, "_log_completion_extra"): ("column", "values"),
    (GRPOTrainer, "_get_train_sampler"): ("dataset",),
    (GRPOTrainer, "set_initial_training_values"): ("args", "dataloader"),
    (GRPOTrainer, "_save_checkpoint"): ("model", "trial"),
    (GRPOTrainer, "_get_output_dir"): ("trial",),
    (GRPOTrainer, "_save_rng_state"): ("output_dir",),
    (GRPOTrainer, "_load_optimizer_and_scheduler"): ("checkpoint",),
    (GRPOTrainer, "train"): ("resume_from_checkpoint", "trial", "ignore_keys_for_eval"),
    (GRPOTrainer, "create_model_card"): ("model_name", "dataset_name", "tags"),
    (GRPOTrainer, "init_hf_repo"): ("token", "..."),
    (VLLMGeneration, "_iter_named_params"): (),
    (VLLMGeneration, "generate"): ("prompts", "images", "num_generations", "profiler"),
    (VLLMGeneration, "sync_weights"): (),
    (VLLMClient, "generate"): ("prompts", "..."),
    (VLLMClient, "update_named_params"): ("metadata", "named_params"),
    (VLLMClient, "reset_prefix_cache"): (),
    (VLLMClient, "init_communicator"): ("device",),
    (VLLMClient, "close_communicator"): (),
    (VLLMClient, "_finish_weight_update"): (),
    (VLLMClient, "image_features"): ("images", "..."),
    (VLLMClient, "get_server_info"): (),
    (GRPOTrainer, "_generate_single_turn"): ("prompt_ids", "images", "multimodal_fields", "num_generations", "..."),
    (VLLMGeneration, "_fix_param_name_to_vllm"): ("name", "extra_prefixes"),
}


def check_hooks(trainer: type) -> None:
    """
    Checks that a trainer's overrides are called: they would silently have no effect otherwise. Raises `ImportError` if TRL's
    methods have changed, and `TypeError` if the trainer is combined with one whose methods GRPO's hide.
    """
    for (cls, name), known in HOOKS.items():
        hook = getattr(cls, name, None)
        now = tuple(inspect.signature(hook).parameters)[1:] if hook is not None else None
        first = known[:-1] if known[-1:] == ("...",) else known
        if now is None or now[: len(first)] != first or (first == known and now != known):
            what = "is gone" if now is None else f"takes ({', '.join(now)}), not ({', '.join(known)})"
            raise ImportError(
                f"trl {trl.__version__} is not supported: its {cls.__name__}.{name} {what}: pip install 'trl>=1.16.0,<1.17'"
            )
    order = trainer.__mro__
    for other in order[order.index(GRPOTrainer) :]:
        if issubclass(other, Trainer) and not issubclass(GRPOTrainer, other):
            raise TypeError(
                f"{trainer.__name__}: {other.__name__} is no subclass of GRPOTrainer, whose methods would hide its own"
            )
