"""What MLEGRPOTrainer overrides or calls in TRL. If a test fails with a new TRL, adapt the trainer, then the test."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig
from support.toy_trainer import make_trainer
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
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "...",
    ),
    (GRPOTrainer, "log"): ("logs", "start_time"),
    (GRPOTrainer, "_log_completion_extra"): ("column", "values"),
    (GRPOTrainer, "_get_train_sampler"): ("dataset",),
    (GRPOTrainer, "_save"): ("output_dir", "state_dict"),
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
    (GRPOTrainer, "_generate_single_turn"): ("prompt_ids", "images", "multimodal_fields", "num_generations", "..."),
    (VLLMGeneration, "_fix_param_name_to_vllm"): ("name", "extra_prefixes"),
}


@pytest.mark.parametrize(("cls", "name"), HOOKS, ids=lambda value: getattr(value, "__name__", value))
def test_signatures_have_not_moved(cls, name):
    """An override that TRL does not call any more would silently have no effect."""
    names = HOOKS[cls, name]
    now = tuple(inspect.signature(getattr(cls, name)).parameters)[1:]
    if names[-1:] == ("...",):
        names, now = names[:-1], now[: len(names) - 1]
    assert now == names


def test_trl_attributes_have_not_moved(tiny_model, tmp_path):
    trainer = make_trainer(tiny_model, tmp_path, cls=GRPOTrainer)
    assert {"prompt", "completion", "rewards", "advantages", "extra"} <= set(trainer._logs)
    assert trainer._logs["extra"]["column"].maxlen == trainer.args.generation_batch_size
    assert trainer._pending_extra_logs == {}
    assert set(trainer._metrics) == {"train", "eval"}
    assert trainer.environment_factories is None
    trainer.train()
    assert "frac_reward_zero_std" in trainer.state.log_history[0]  # removed with other advantages


def test_trl_notes_the_step_whose_weights_vllm_has(tiny_model, tmp_path):
    trainer, synced = make_trainer(tiny_model, tmp_path, cls=GRPOTrainer), []
    trainer.use_vllm, trainer._last_loaded_step = True, -1
    trainer.vllm_generation = SimpleNamespace(
        sync_weights=lambda: synced.append(trainer.state.global_step),
        generate=lambda prompts, **kwargs: (None, [[1]] * len(prompts), [[[0.0]]] * len(prompts), None),
    )
    for trainer.state.global_step in (0, 0, 3):
        trainer._generate_single_turn([[1]], None, {}, 1)
        assert trainer._last_loaded_step == trainer.state.global_step
    assert synced == [0, 3]


def test_trl_asks_for_the_old_log_probabilities_first(tiny_model, tmp_path):
    """Before those of the reference, and keeps them in the batch: asynchronous training puts stored ones there."""
    asked = []

    class Recording(GRPOTrainer):
        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            asked.append(found[0])
            return found

    more = {"peft_config": LoraConfig(target_modules=["q_proj"], init_lora_weights=False)}
    options = {"beta": 0.1, "steps_per_generation": 2, "per_device_train_batch_size": 4, "trainer_kwargs": more}
    trainer = make_trainer(tiny_model, tmp_path, cls=Recording, **options)
    trainer.model.train()
    rows = [row for row in list(trainer.train_dataset)[:2] for _ in range(4)]
    output = trainer._generate_and_score_completions(rows)
    assert len(asked) == 2
    assert output["old_per_token_logps"] is asked[0]
    assert output["ref_per_token_logps"] is asked[1]
    assert not torch.equal(*asked)  # the adapter differs from its base
