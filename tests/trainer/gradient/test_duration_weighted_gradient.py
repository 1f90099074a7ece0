import pytest
import torch
from support import forked, replay
from support.replay import BATCHES, gradients_by_hand, standardized_rewards, trainer_gradients, two_parts


# batch, per-device batch of one process, gradient accumulation
CASES = [("plain", 8, 1), ("straddling", 6, 2)]
LOSS_TYPES = ["grpo", "dapo"]


def largest_difference(left, right):
    assert left.keys() == right.keys()
    return max((left[name] - right[name]).abs().max().item() for name in left)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize(("name", "per_device_batch", "accumulation"), CASES)
def test_gradient_is_the_one_by_hand(tiny_model, tmp_path, name, per_device_batch, accumulation, loss_type):
    options = {"loss_type": loss_type, "gradient_accumulation_steps": accumulation}
    gradients = trainer_gradients(tiny_model, str(tmp_path), BATCHES[name], per_device_batch, **options)
    by_hand = gradients_by_hand(tiny_model, BATCHES[name], loss_type)
    assert largest_difference(gradients, by_hand) <= 1e-5
    unweighted = gradients_by_hand(tiny_model, BATCHES[name], loss_type, weighted=False)
    assert largest_difference(gradients, unweighted) > 1e-3


@pytest.mark.parametrize("weighting", [None, "linear"])
def test_gradient_of_two_parts_is_the_one_by_hand(tiny_model, tmp_path, weighting):
    options = {"objective": "max_at_k", "max_at_k": 2, "duration_weighting": weighting}
    batch = BATCHES["straddling"]
    gradients = trainer_gradients(tiny_model, str(tmp_path), batch, 12, loss_type="dapo", **options)
    by_hand = gradients_by_hand(tiny_model, batch, "dapo", weighted=weighting is not None, of_group=two_parts)
    assert largest_difference(gradients, by_hand) <= 1e-5
    assert largest_difference(gradients, gradients_by_hand(tiny_model, batch, "dapo")) > 1e-3


@pytest.mark.slow
def test_gradient_of_two_processes_is_the_one_by_hand(tiny_model, tmp_path):
    cases = [
        (name, per_device_batch // 2, {"loss_type": loss_type, "gradient_accumulation_steps": accumulation})
        for name, per_device_batch, accumulation in CASES
        for loss_type in LOSS_TYPES
    ]
    two_part_options = {"objective": "max_at_k", "max_at_k": 2, "duration_weighting": "linear", "loss_type": "dapo"}
    cases.append(("straddling", 6, two_part_options))
    forked.finish(forked.start(replay.work, (tiny_model, tmp_path, cases), tmp_path / "run"), tmp_path)
    for rank in range(2):
        results = torch.load(tmp_path / f"gradients-{rank}.pt")
        assert len(results) == len(cases)
        for (name, _, loss_type, objective), gradients in results.items():
            of_group = standardized_rewards if objective == "reward" else two_parts
            by_hand = gradients_by_hand(tiny_model, BATCHES[name], loss_type, of_group=of_group)
            assert largest_difference(gradients, by_hand) <= 1e-5
