import json
import math

import pytest
import torch

from trl_mle.trainer.gradient.running_baseline import DECAY, RunningBaseline


def test_rewards_are_compared_with_the_batches_before():
    baseline = RunningBaseline()
    ones = torch.ones(4)
    first = baseline.advantages(["a", "a", "b", "b"], torch.tensor([1.0, 3.0, 5.0, math.nan]), ones, scale=False)
    assert first.tolist() == [
        -1,
        1,
        0,
        0,
    ]  # against their own mean, because there is no earlier one; 0 without a reward
    second = baseline.advantages(["a", "a", "b", "c"], torch.tensor([7.0, 2.0, 6.0, 9.0]), ones, scale=False)
    assert second.tolist() == [5, 0, 1, 0]
    third = baseline.advantages(["a"], torch.tensor([0.0]), torch.ones(1), scale=False)
    assert third.item() == pytest.approx(-(DECAY * (1 + 3) + 7 + 2) / (DECAY * 2 + 2))


def test_they_are_divided_by_the_deviation_that_knows_them():
    baseline = RunningBaseline()
    prompts = ["a"] * 3
    baseline.advantages(prompts, torch.tensor([1.0, 2.0, 6.0]), torch.ones(3))
    rewards, weights = torch.tensor([4.0, 0.0, 8.0]), torch.tensor([1.0, 2.0, 0.5])
    advantages = baseline.advantages(prompts, rewards, weights)
    values, counts = torch.tensor([1.0, 2, 6, 4, 0, 8]), torch.tensor([DECAY] * 3 + [1, 2, 0.5])
    mean = (counts * values).sum() / counts.sum()
    deviation = ((counts * (values - mean) ** 2).sum() / counts.sum()).sqrt()
    torch.testing.assert_close(advantages, (rewards - 3) / (deviation + 1e-4))


def test_one_reward_before_does_not_make_the_next_one_huge():
    baseline = RunningBaseline()
    for reward in (-10.0, -9.9):
        assert abs(baseline.advantages(["a"], torch.tensor([reward]), torch.ones(1)).item()) < 3


def test_durations_weigh_what_is_trained_on_more_often_down():
    """The slow half of a policy's programs is trained on a tenth as often as the fast half."""
    baseline = RunningBaseline()
    rewards = torch.tensor([0.0] * 10 + [1.0])
    weights = torch.tensor([1.0] * 10 + [10.0])
    baseline.advantages(["a"] * 11, rewards, weights, scale=False)
    assert baseline.advantages(["a"], torch.tensor([0.0]), torch.ones(1), scale=False).item() == pytest.approx(-0.5)


def test_without_any_weight_there_is_no_advantage():
    assert RunningBaseline().advantages(["a"], torch.tensor([1.0]), torch.zeros(1)).tolist() == [0]


def test_it_survives_a_checkpoint():
    baseline, restored = RunningBaseline(), RunningBaseline()
    baseline.advantages(["a", "b"], torch.tensor([1.0, 2.0]), torch.tensor([0.1, 3.0]))
    restored.load_state_dict(json.loads(json.dumps(baseline.state_dict())))
    again = [each.advantages(["a", "b"], torch.tensor([4.0, -2.0]), torch.ones(2)) for each in (baseline, restored)]
    assert torch.equal(*again)
