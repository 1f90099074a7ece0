import pytest

from trl_mle.trainer import MLEGRPOConfig


def config(**kwargs):
    defaults = {"use_cpu": True, "bf16": False, "per_device_train_batch_size": 8, "num_generations": 8}
    return MLEGRPOConfig("unused", **(defaults | kwargs))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"duration_weight_low": float("nan")}, "duration_weight_low to duration_weight_high must"),
        ({"objective": "max_at_k", "duration_weight_low": 0.5}, "need duration_weighting='linear'"),
        ({"share_prompts": True, "gradient_checkpointing": True}, "share_prompts keeps"),
        ({"max_in_flight": 16}, "max_in_flight=16 needs async_rollouts"),
        ({"async_rollouts": True, "max_in_flight": 12}, "must be a multiple of generation_batch_size=8"),
        ({"objective": "best"}, "objective must be one of .* or the dotted name of a class, got 'best'"),
        ({"objective": "max_at_k", "max_at_k": 9}, "max_at_k must be from 2"),
        ({"objective": "max_at_k", "scale_rewards": "batch"}, "needs the defaults of scale_rewards"),
    ],
)
def test_bad_values_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        config(**kwargs)


def test_defaults_depend_on_other_options():
    assert config(async_rollouts=True, gradient_accumulation_steps=2).max_in_flight == 2 * 16
    assert config(async_rollouts=True, use_vllm=True, vllm_mode="server").max_in_flight == 3 * 8
    assert config(gradient_accumulation_steps=3).completions_per_process == 24
    # No weight on single samples is neutral if programs fail or differ, but the paper has one
    assert config().duration_weighting == "linear"
    assert config(objective="max_at_k").duration_weighting == "none"
    for size, k in ((2, 2), (16, 8), (128, 8)):
        args = config(objective="max_at_k", num_generations=size, per_device_train_batch_size=size)
        assert args.max_at_k == k


@pytest.mark.parametrize(
    ("kwargs", "boundary"),
    [
        ({"gradient_accumulation_steps": 4}, 1),  # steps_per_generation follows it
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 6}, 2),  # they end together after two steps
        ({"steps_per_generation": 2, "gradient_accumulation_steps": 4, "num_iterations": 3}, 3),
    ],
)
def test_save_steps_fall_on_generation_boundaries(kwargs, boundary):
    for save_steps in range(1, 3 * boundary + 1):
        if save_steps % boundary == 0:
            config(**kwargs, save_steps=save_steps)
        else:
            with pytest.raises(ValueError, match=f"save_steps={save_steps} saves between two generations"):
                config(**kwargs, save_steps=save_steps)


def test_other_checkpoints_do_too():
    config(num_iterations=3, save_steps=0.19, max_steps=30)  # a share of all steps, rounded up to 6
    with pytest.raises(ValueError, match="save_steps=5 saves"):
        config(num_iterations=3, save_steps=0.1, max_steps=42)
    with pytest.raises(ValueError, match=r"max_steps=7 saves .*: use a multiple of 3"):
        config(num_iterations=3, save_strategy="epoch", max_steps=7)
    best = {"save_strategy": "best", "metric_for_best_model": "reward", "eval_strategy": "steps", "num_iterations": 3}
    config(**best, eval_steps=6)
    with pytest.raises(ValueError, match="eval_steps=4 saves"):
        config(**best, eval_steps=4)
    config(num_iterations=3, save_strategy="no", save_steps=4, max_steps=7)


def test_bf16_only_where_it_works(tmp_path, monkeypatch):
    """TRL's default is `True`."""
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    assert MLEGRPOConfig(str(tmp_path)).bf16 is False
