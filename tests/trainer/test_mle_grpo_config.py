from contextlib import nullcontext

import pytest

from trl_mle.trainer import MLEGRPOConfig


def config(**kwargs):
    defaults = {"use_cpu": True, "bf16": False, "per_device_train_batch_size": 8, "num_generations": 8}
    return MLEGRPOConfig("unused", **(defaults | kwargs))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"duration_weighting": "sqrt"}, "duration_weighting must be 'linear' or 'none'"),
        ({"duration_weight_low": 1.5}, "duration_weight_low must be between 0 and 1"),
        ({"duration_weight_low": float("nan")}, "duration_weight_low must be between 0 and 1"),
        ({"duration_weight_high": 0.5}, "duration_weight_high must be at least 1"),
        ({"max_prompt_length": 0}, "max_prompt_length must be at least 1"),
        ({"improve_probability": 1.5}, "improve_probability must be between 0 and 1"),
        ({"pool_size": 0}, "pool_size must be at least 1, got 0"),
        ({"async_rollouts": True, "max_in_flight": 12}, "max_in_flight=12 must be a multiple of the 8 rollouts"),
        ({"async_rollouts": True, "max_in_flight": 0}, "max_in_flight=0 must be a multiple"),
        ({"use_vllm": True, "top_p": 0.95}, "top_p=0.95 with use_vllm: it samples from another distribution"),
        ({"use_vllm": True, "top_k": 20, "vllm_mode": "server"}, "top_k=20 with use_vllm: .*: set it to 0"),
        ({"use_vllm": True, "min_p": 0.1}, "min_p=0.1 with use_vllm: .*: set it to None"),
        ({"use_vllm": True, "repetition_penalty": 1.1}, "repetition_penalty=1.1 with use_vllm: .*: set it to 1.0"),
        ({"use_vllm": True, "generation_kwargs": {"top_p": 0.8}}, "top_p=0.8 with use_vllm"),
        ({"use_vllm": True, "generation_kwargs": '{"min_tokens": 4}'}, "min_tokens=4 with use_vllm"),
        (
            {"use_vllm": True, "temperature": 0.9, "generation_kwargs": {"temperature": 0.7}},
            "temperature=0.7 with .* 0.9",
        ),
        (
            {"use_vllm": True, "vllm_structured_outputs_regex": "a+"},
            "vllm_structured_outputs_regex='a\\+' with use_vllm",
        ),
        (
            {
                "use_vllm": True,
                "top_p": 0.9,
                "async_rollouts": True,
                "vllm_importance_sampling_correction": False,
            },
            "top_p=0.9 with use_vllm",
        ),
        (
            {"use_transformers_continuous_batching": True, "bf16": True},
            "casts the trained weights to 16 bits",
        ),
        ({"enable_jit_checkpoint": True}, "enable_jit_checkpoint saves between two generations"),
        ({"use_transformers_paged": True, "bf16": True}, "casts the trained weights to 16 bits"),
        (
            {"objective": "max_at_k", "duration_weight_low": 0.5},
            "duration_weighting='none', the default of objectives other than 'reward', has none: set it to 'linear', or",
        ),
        (
            {"duration_weighting": "none", "duration_weight_high": 2.0},
            "duration_weighting='none', the default of .* none",
        ),
        ({"max_in_flight": 16}, "max_in_flight=16 needs async_rollouts: set that to true, or leave it out"),
        (
            {"objective": "best"},
            "objective must be 'reward', .* or the dotted name of a class, got 'best'",
        ),
        ({"max_at_k": 4}, "max_at_k=4 needs objective='max_at_k', got 'reward'"),
        ({"objective": "mean_rank", "max_at_k": 4}, "max_at_k=4 needs objective='max_at_k', got 'mean_rank'"),
        ({"objective": "max_at_k", "max_at_k": 1}, "max_at_k must be from 2 to the 8 completions of a group"),
        ({"objective": "max_at_k", "max_at_k": 9}, "max_at_k must be from 2 to the 8 completions of a group"),
        ({"objective": "max_at_k", "scale_rewards": "none"}, "leave scale_rewards and multi_objective_aggregation"),
        ({"objective": "max_at_k", "scale_rewards": "batch"}, "leave scale_rewards and multi_objective_aggregation"),
        (
            {"objective": "mean_rank", "multi_objective_aggregation": "normalize_then_sum"},
            "leave scale_rewards and multi_objective_aggregation",
        ),
    ],
)
def test_bad_values_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message) as error:
        config(**kwargs)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "found"), [("false", "none"), ("True", "group"), (False, "none"), ("batch", "batch")]
)
def test_scaling_may_be_switched(given, found):
    assert config(scale_rewards=given).scale_rewards == found


def test_weights_that_are_not_cast():
    assert not config(use_transformers_continuous_batching=True).bf16


@pytest.mark.parametrize(
    ("kwargs", "refused"),
    [
        ({}, False),  # ratios are 1: log-probabilities are compared with themselves
        ({"gradient_accumulation_steps": 4}, False),
        ({"num_iterations": 2, "steps_per_generation": 2, "gradient_accumulation_steps": 4}, False),
        ({"num_iterations": 2}, True),
        ({"steps_per_generation": 2}, True),
        ({"use_vllm": True}, True),
        ({"use_vllm": True, "vllm_mode": "server"}, True),
        ({"use_vllm": True, "vllm_importance_sampling_correction": False}, False),
        ({"async_rollouts": True}, True),
        ({"async_rollouts": True, "max_in_flight": 8}, False),
        ({"async_rollouts": True, "disable_dropout": True}, False),
    ],
)
def test_dropout_is_refused_where_stored_log_probabilities_are_compared(kwargs, refused):
    args = config(**kwargs, save_strategy="no")
    args.check_model(dropout=0.0, quantized=False)
    with pytest.raises(ValueError, match=r"^a dropout of 0\.05 adds noise") if refused else nullcontext():
        args.check_model(dropout=0.05, quantized=False)
    refused = refused or args.disable_dropout  # which TRL disables in modules only
    with pytest.raises(ValueError, match=r"^an attention_dropout of 0\.1 adds noise") if refused else nullcontext():
        args.check_model(dropout=0.0, quantized=False, attention_dropout=0.1)


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_quantized_weights_are_refused_with_vllm(mode):
    config().check_model(dropout=0.0, quantized=True)
    args = config(use_vllm=True, vllm_mode=mode)
    with pytest.raises(ValueError, match=r"^vLLM cannot take quantized weights from training") as error:
        args.check_model(dropout=0.0, quantized=True)
    assert "\n" not in str(error.value)


def test_two_batches_are_in_flight_unless_told_otherwise():
    assert config(async_rollouts=True, gradient_accumulation_steps=2).max_in_flight == 2 * 16
    assert config(async_rollouts=True, max_in_flight=8).max_in_flight == 8
    server = {"use_vllm": True, "vllm_mode": "server"}
    assert config(async_rollouts=True, **server).max_in_flight == 3 * 8


def test_unset_weighting_depends_on_the_objective():
    """No weight on single samples is neutral if programs fail or differ, but the paper has one."""
    assert config().duration_weighting == "linear"
    assert config(async_rollouts=True).duration_weighting == "linear"
    assert config(objective="max_at_k").duration_weighting == "none"
    assert config(objective="mean_rank", async_rollouts=True).duration_weighting == "none"
    assert config(objective="mean_rank", duration_weighting="linear").duration_weighting == "linear"


@pytest.mark.parametrize(("size", "k"), [(2, 2), (4, 2), (16, 8), (128, 8)])
def test_k_is_half_the_group_and_at_most_8(size, k):
    args = config(objective="max_at_k", num_generations=size, per_device_train_batch_size=size)
    assert args.max_at_k == k
    assert config(objective="mean_rank").max_at_k is None


@pytest.mark.parametrize(
    ("kwargs", "boundary"),
    [
        ({}, 1),  # generation and optimizer steps coincide
        ({"gradient_accumulation_steps": 4}, 1),  # steps_per_generation follows it
        ({"num_iterations": 3}, 3),
        ({"steps_per_generation": 4}, 4),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 2}, 2),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 8}, 1),
        (
            {"steps_per_generation": 4, "gradient_accumulation_steps": 6},
            2,
        ),  # 6, 12: step and generation end together after two steps
        ({"steps_per_generation": 2, "gradient_accumulation_steps": 4, "num_iterations": 3}, 3),
    ],
)
def test_save_steps_fall_on_generation_boundaries(kwargs, boundary):
    assert config(**kwargs, save_strategy="no").optimizer_steps_per_generation == boundary
    for save_steps in range(1, 3 * boundary + 1):
        if save_steps % boundary == 0:
            config(**kwargs, save_steps=save_steps)
        else:
            with pytest.raises(ValueError, match=f"save_steps={save_steps} saves between two generations"):
                config(**kwargs, save_steps=save_steps)


def test_save_steps_as_a_share_of_all_steps():
    config(num_iterations=3, save_steps=0.2, max_steps=30)  # every 6 steps
    config(num_iterations=3, save_steps=0.19, max_steps=30)  # rounded up: 6 as well
    with pytest.raises(ValueError, match="save_steps=4 saves between two generations"):
        config(num_iterations=3, save_steps=0.1, max_steps=40)
    with pytest.raises(ValueError, match="is a share of max_steps"):
        config(num_iterations=3, save_steps=0.1)


def test_no_steps_are_refused():
    """The Trainer would take one, print `step 1/0`, and overwrite the model."""
    with pytest.raises(ValueError, match="max_steps must be at least 1"):
        config(max_steps=0)


def test_the_last_checkpoint_is_saved_at_max_steps():
    """Whatever saves the others: epochs end there, too."""
    best = {"metric_for_best_model": "reward", "eval_strategy": "epoch"}
    for strategy, options in (("steps", {"save_steps": 3}), ("epoch", {}), ("best", best)):
        config(num_iterations=3, save_strategy=strategy, max_steps=6, **options)
        with pytest.raises(ValueError, match=r"max_steps=7 saves between two generations.*: use a multiple of 3 "):
            config(num_iterations=3, save_strategy=strategy, max_steps=7, **options)
    config(num_iterations=3, save_steps=0, max_steps=6)  # saves only there
    config(num_iterations=3, save_strategy="no", max_steps=7)


@pytest.mark.parametrize("batches", range(1, 5))
@pytest.mark.parametrize(("generation", "step"), [(1, 4), (4, 1), (3, 2), (2, 3), (6, 4)])
def test_checkpoints_of_later_epochs(generation, step, batches):
    """As transformers counts: the last step of an epoch takes the micro-batches that are left."""
    args = config(steps_per_generation=generation, gradient_accumulation_steps=step, save_strategy="epoch")
    ends, done = [], 0  # micro-batches after each step of three epochs
    for epoch in range(1, 4):
        while done < epoch * batches * generation:
            done = min(done + step, epoch * batches * generation)
            ends.append(done)
    args.save_strategy = "steps"
    for args.save_steps in range(1, len(ends) + 1):
        saved = [*ends[args.save_steps - 1 :: args.save_steps], ends[-1]]
        exact = all(count % generation == 0 for count in saved)
        with nullcontext() if exact else pytest.raises(ValueError, match=f"save_steps={args.save_steps} saves"):
            args.check_checkpoints(len(ends), len(ends) // 3)
    args.save_strategy = "epoch"
    args.check_checkpoints(-1, len(ends) // 3)


def test_strategies_that_do_not_save_between_generations():
    config(num_iterations=3, save_steps=4, save_strategy="no")
    config(num_iterations=3, save_steps=4, save_strategy="epoch")
    best = {"save_strategy": "best", "metric_for_best_model": "reward", "eval_strategy": "steps", "num_iterations": 3}
    config(**best, eval_steps=6)
    with pytest.raises(ValueError, match="eval_steps=4 saves between two generations"):
        config(**best, eval_steps=4)


def test_bf16_only_where_it_works(tmp_path, monkeypatch):
    """TRL's default is `True`."""
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    assert MLEGRPOConfig(str(tmp_path)).bf16 is False


@pytest.mark.parametrize(
    "kwargs",
    [
        {"temperature": 0.7, "top_k": -1, "min_p": 0.0, "generation_kwargs": {"seed": 5, "temperature": 0.7}},
        {"top_p": 0.95, "vllm_importance_sampling_correction": False},  # the samples count as the policy's own
        {"top_p": 0.95, "use_vllm": False},
    ],
)
def test_sampling_that_leaves_ratios_alone(kwargs):
    config(**({"use_vllm": True} | kwargs))
