import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trl_mle.trainer.gradient.duration import duration_weights
from trl_mle.trainer.gradient.inclusion import (
    MeanDuration,
    duration_quartiles,
    inclusion_probabilities,
    inclusion_weights,
    kaplan_meier_masses,
)


seconds = st.floats(min_value=2.0**-10, max_value=2.0**17, width=32)
durations = st.lists(st.one_of(seconds, st.just(math.nan)), min_size=1, max_size=64).map(torch.tensor)


@given(durations)
def test_mean_is_one_and_unknown_weighs_one(durations):
    weights = duration_weights(durations)
    assert weights.mean().item() == pytest.approx(1, rel=1e-4)
    assert (weights[durations.isnan()] == 1).all()
    assert weights.shape == durations.shape


@given(durations, st.floats(min_value=1e-2, max_value=1e2))
def test_unit_of_time_does_not_matter(durations, factor):
    torch.testing.assert_close(duration_weights(durations * factor), duration_weights(durations), rtol=1e-4, atol=0)


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


@pytest.mark.parametrize("durations", [[0.0, 0.0, 0.0], [math.nan, math.nan], [math.nan, 0.0]])
def test_nothing_to_go_by_weighs_one(durations):
    assert (duration_weights(torch.tensor(durations)) == 1).all()


@given(durations.filter(lambda tensor: not tensor.isnan().all()))
def test_before_anything_was_trained_on_all_weigh_the_same(durations):
    known = durations[~durations.isnan()].double()
    nothing = torch.zeros_like(known, dtype=torch.bool)
    assert (inclusion_weights(durations, known, ~nothing, nothing) == 1).all()


def test_none_weighs_one_and_other_methods_are_refused():
    durations = torch.tensor([1.0, 3.0])
    assert duration_weights(durations, "none", low=0.5).tolist() == [1, 1]
    assert duration_weights(durations).tolist() == [0.5, 1.5]
    with pytest.raises(ValueError, match="choose 'linear' or 'none'"):
        duration_weights(durations, "sqrt")


def test_a_lone_rollout_weighs_what_it_ran_against_those_before():
    running = MeanDuration(batch_size=8)
    for _ in range(30):
        assert running.update("wine", torch.tensor([0.5, 1.5] * 4)) == pytest.approx(1)
    running.update("iris", torch.tensor([100.0]))
    alone = torch.tensor([10.0])
    restored = MeanDuration(batch_size=8)
    restored.load_state_dict(json.loads(json.dumps(running.state_dict())))
    mean = running.update("wine", alone)
    assert restored.update("wine", alone) == mean
    assert duration_weights(alone, mean=mean).item() == pytest.approx(10, rel=0.12)
    assert duration_weights(alone).item() == 1


def test_the_running_mean_fades_by_rollouts_however_they_are_spread():
    """A batch of eight counts like eight batches of one, and earlier batches fade as much."""
    together, spread, nothing = MeanDuration(8), MeanDuration(8), torch.tensor([math.nan])
    assert math.isnan(together.update(None, nothing))
    together.update(None, torch.full((8,), 3.0))
    for _ in range(8):
        spread.update(None, torch.tensor([3.0]))
        spread.update(None, nothing)
    faded = [running.update(None, torch.full((8,), 1.0)) for running in (together, spread)]
    assert faded[0] == pytest.approx((0.9 * 3 + 1) / 1.9)
    assert faded[1] == pytest.approx(faded[0], rel=0.02)


def times(*seconds):
    return torch.tensor(seconds, dtype=torch.float64)


def flags(*values):
    return torch.tensor(values, dtype=torch.bool)


@given(st.lists(st.tuples(seconds, st.booleans()), min_size=1, max_size=32))
def test_masses_of_programs_are_those_of_redistribution_to_the_right(programs):
    """Efron's form of the estimator: the mass of a running program is shared by all longer ones."""
    order = sorted(range(len(programs)), key=lambda i: (programs[i][0], not programs[i][1]))
    expected = [1.0] * len(programs)
    for place, i in enumerate(order):
        if not programs[i][1]:
            for j in order[place + 1 :]:
                expected[j] += expected[i] / (len(order) - place - 1)
            expected[i] = 0.0
    masses = kaplan_meier_masses(times(*[s for s, _ in programs]), flags(*[ended for _, ended in programs]))
    assert masses.tolist() == pytest.approx(expected)


def test_quartiles_of_programs_that_have_not_all_ended():
    assert duration_quartiles(times(4, 1, 3, 2), flags(1, 1, 1, 1)).tolist() == [1, 2, 3]
    # two that have run for more than 3 s will take 8
    assert duration_quartiles(times(1, 3.5, 3.5, 8), flags(1, 0, 0, 1)).tolist() == [1, 8, 8]


@given(durations.filter(lambda tensor: not tensor.isnan().all()))
def test_inclusion_weighs_all_alike_when_nothing_is_missing(durations):
    known = durations[~durations.isnan()].double()
    everything = torch.ones_like(known, dtype=torch.bool)
    probabilities = inclusion_probabilities(durations, known, everything, everything)
    assert torch.equal(probabilities.isnan(), durations.isnan())
    sampled = (known, everything, everything)
    torch.testing.assert_close(inclusion_weights(durations, *sampled), torch.ones_like(durations))


def test_inclusion_makes_up_for_those_that_still_run():
    """Two of ten slow programs have been trained on, and eight still run."""
    seconds = times(*[1.0 + i / 100 for i in range(20)], 9.0, 9.5, *[5.0] * 8)
    ended = flags(*[1] * 22, *[0] * 8)
    trained = flags(*[1] * 22, *[0] * 8)
    batch = torch.tensor([1.0, 1.18, 9.0, 9.5, math.nan])
    probabilities = inclusion_probabilities(batch, seconds, ended, trained)
    assert probabilities[:4].tolist() == pytest.approx([1, 1, 0.2, 0.2], abs=1e-4)
    weights = inclusion_weights(batch, seconds, ended, trained)
    assert weights[2] == pytest.approx(5 * weights[0])
    assert weights[4] == 1
    assert inclusion_weights(batch[2:3], seconds, ended, trained) == weights[2]  # also in a batch of its own
    trained_on = inclusion_weights(seconds[trained], seconds, ended, trained)
    assert trained_on.mean() == pytest.approx(1)


def test_inclusion_makes_up_for_those_that_were_dropped():
    seconds = times(*[1.0] * 10, *[9.0] * 10)
    trained = flags(*[1] * 10, *[1, 0] * 5)
    probabilities = inclusion_probabilities(torch.tensor([1.0, 9.0]), seconds, torch.ones_like(trained), trained)
    assert probabilities.tolist() == pytest.approx([1, 0.5])


def test_inclusion_restores_the_mean_over_the_policy():
    """Programs are sampled at random times and trained on when they end, so that slow ones are missing."""
    generator = torch.Generator().manual_seed(0)
    durations = torch.randn(4000, generator=generator, dtype=torch.float64).exp()
    age = 4 * torch.rand(4000, generator=generator, dtype=torch.float64)
    ended = durations <= age
    seconds = torch.minimum(durations, age)
    weights = inclusion_weights(seconds[ended], seconds, ended, ended)
    possible = durations < 3.8  # longer ones have hardly had time to end
    truth = durations[possible].mean().item()
    naive = durations[possible & ended].mean().item()
    kept = possible[ended]
    corrected = ((weights * seconds[ended])[kept].sum() / weights[kept].sum()).item()
    assert naive < 0.8 * truth
    assert corrected == pytest.approx(truth, rel=0.05)


def quarters(batches, batch, seed):
    """The mean weight of the fastest and the slowest quarter trained on, after so many steps with two batches in flight."""
    generator = torch.Generator().manual_seed(seed)
    seconds = torch.randn(batch * (batches + 1), generator=generator, dtype=torch.float64).exp()
    trained = torch.ones_like(seconds, dtype=torch.bool)
    trained[-batch:] = False
    weights = inclusion_weights(seconds[trained], seconds, torch.ones_like(trained), trained)
    weights = weights[seconds[trained].argsort()]
    return weights[: len(weights) // 4].mean().item(), weights[-(len(weights) // 4) :].mean().item()


@pytest.mark.parametrize("batches", [1, 3, 10])
@pytest.mark.parametrize("batch", [8, 64])
def test_inclusion_does_not_pay_for_what_chance_left_out(batches, batch):
    """The rollouts sampled last are missing, whatever their Δt."""
    fast, slow = torch.tensor([quarters(batches, batch, seed) for seed in range(40)]).mean(0).tolist()
    assert fast == pytest.approx(1, abs=0.05)
    assert slow == pytest.approx(1, abs=0.05)


def test_inclusion_makes_up_for_slow_programs_from_the_first_step_on():
    """The slow half has been trained on only where it was fast enough, so that there is something to weight."""
    seconds = times(*range(1, 17))
    trained = flags(*[1] * 8, *[1, 0] * 2, *[0] * 4)
    weights = inclusion_weights(seconds[trained], seconds, torch.ones_like(trained), trained)
    assert weights[-1] > 1.5 * weights[0]
