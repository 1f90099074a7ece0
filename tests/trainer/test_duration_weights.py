import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trl_mle.trainer.duration import duration_weights
from trl_mle.trainer.gradient.weighting import Weighting


seconds = st.floats(min_value=2.0**-10, max_value=2.0**17, width=32)
durations = st.lists(st.one_of(seconds, st.just(math.nan)), min_size=1, max_size=64).map(torch.tensor)


@given(durations)
def test_mean_is_one_and_unknown_weighs_one(durations):
    weights = duration_weights(durations)
    assert weights.mean().item() == pytest.approx(1, rel=1e-4)
    assert (weights[durations.isnan()] == 1).all()
    assert weights.shape == durations.shape


@given(durations)
def test_weights_are_proportional_to_durations(durations):
    known = ~durations.isnan()
    products = torch.outer(duration_weights(durations)[known], durations[known])
    torch.testing.assert_close(products, products.T, rtol=1e-4, atol=0)


@given(durations, st.floats(min_value=0, max_value=1), st.floats(min_value=1, max_value=10))
def test_bounds_clip_the_unbounded_weights(durations, low, high):
    expected = duration_weights(durations).clamp(low, high)
    assert torch.equal(duration_weights(durations, low=low, high=high), expected)
    assert torch.equal(duration_weights(durations, low=low), duration_weights(durations).clamp(min=low))


def test_nothing_to_go_by_weighs_one():
    for seconds in ([0.0, 0.0, 0.0], [math.nan, math.nan], [math.nan, 0.0]):
        assert (duration_weights(torch.tensor(seconds)) == 1).all()
    durations = torch.tensor([1.0, 3.0])
    assert duration_weights(durations, "none", low=0.5).tolist() == [1, 1]
    assert duration_weights(durations).tolist() == [0.5, 1.5]
    with pytest.raises(ValueError, match="choose 'linear' or 'none'"):
        duration_weights(durations, "sqrt")


def running_weights():
    return Weighting(SimpleNamespace(completions_per_batch=8))


def test_a_lone_rollout_weighs_what_it_ran_against_those_before():
    running = running_weights()
    for _ in range(30):
        assert running.running_mean("wine", torch.tensor([0.5, 1.5] * 4)) == pytest.approx(1)
    running.running_mean("iris", torch.tensor([100.0]))
    alone = torch.tensor([10.0])
    restored = running_weights()
    restored.load_state_dict(json.loads(json.dumps(running.state_dict())))
    mean = running.running_mean("wine", alone)
    assert restored.running_mean("wine", alone) == mean
    assert duration_weights(alone, mean=mean).item() == pytest.approx(10, rel=0.12)
    assert duration_weights(alone).item() == 1


def test_the_running_mean_fades_by_rollouts_however_they_are_spread():
    """A batch of eight counts like eight batches of one, and earlier batches fade as much."""
    together, spread, nothing = running_weights(), running_weights(), torch.tensor([math.nan])
    assert math.isnan(together.running_mean(None, nothing))
    together.running_mean(None, torch.full((8,), 3.0))
    for _ in range(8):
        spread.running_mean(None, torch.tensor([3.0]))
        spread.running_mean(None, nothing)
    faded = [running.running_mean(None, torch.full((8,), 1.0)) for running in (together, spread)]
    assert faded[0] == pytest.approx((0.9 * 3 + 1) / 1.9)
    assert faded[1] == pytest.approx(faded[0], rel=0.02)
