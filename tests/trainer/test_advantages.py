import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_mle.trainer.advantages import QUALITY_SCALE, VALID_STEP, best_of_k_gains, group_advantages, standardized


NAN = math.nan
SCORES = st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.70001, 40000.0, -3.0])


def by_subsets(values, k):
    """The gains as their docstring defines them."""
    gains = [0.0] * len(values)
    subsets = list(combinations(range(len(values)), k))
    for subset in subsets:
        for i in subset:
            others = max(values[j] for j in subset if j != i)
            gains[i] += (max(values[i], others) - others) / len(subsets)
    return gains


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.data())
def test_gains_are_those_over_all_subsets(values, data):
    k = data.draw(st.integers(2, len(values)))
    gains = best_of_k_gains(torch.tensor(values, dtype=torch.float64), k)
    torch.testing.assert_close(gains, torch.tensor(by_subsets(values, k), dtype=torch.float64), rtol=1e-9, atol=1e-9)
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert gains[i] == gains[j] if a == b else (gains[i] - gains[j]) * (a - b) >= 0


def test_gains_are_the_gradient_of_the_expected_best_of_k():
    """Softmax over 4 utilities: the sum of gain × ∇log π over n samples is unbiased for d E[best of k] / d logits."""
    utilities, k, n = torch.tensor([0.0, 1.0, 1.0, 4.0], dtype=torch.float64), 3, 4
    logits = torch.tensor([0.5, -0.2, 0.1, -1.0], dtype=torch.float64, requires_grad=True)
    policy = logits.softmax(0)
    best = sum(
        policy[list(draw)].prod() * utilities[list(draw)].max()
        for draw in torch.cartesian_prod(*[torch.arange(4)] * k).tolist()
    )
    (wanted,) = torch.autograd.grad(best, logits, retain_graph=True)
    estimate = torch.zeros(4, dtype=torch.float64)
    for draw in torch.cartesian_prod(*[torch.arange(4)] * n).tolist():
        scores = torch.nn.functional.one_hot(torch.tensor(draw), 4) - policy.detach()
        gains = best_of_k_gains(utilities[draw], k)
        estimate += policy.detach()[draw].prod() * (gains[:, None] * scores).sum(0)
    torch.testing.assert_close(estimate, wanted)


def test_two_parts_by_hand():
    progress = torch.tensor([-10.0, -7.0, -7.0, -9.8])
    quality = torch.tensor([NAN, 0.9, 0.8, NAN])
    # With k = 9, of two valid ones, the best of two
    for k, parts in ((None, [0, 0.75, 0.25, 0]), (2, [0, 1, 0, 0]), (9, [0, 1, 0, 0])):
        second = torch.tensor(parts, dtype=torch.float64) * QUALITY_SCALE
        expected = standardized(progress) + second - second.mean()
        torch.testing.assert_close(group_advantages(progress, quality, k), expected)


MEMBERS = st.tuples(st.sampled_from([-10.0, -9.9, -9.3]), st.just(NAN)) | st.tuples(st.just(-7.0), SCORES)


@settings(max_examples=60)
@given(st.lists(MEMBERS, min_size=2, max_size=8), st.none() | st.integers(2, 8))
def test_properties(members, k):
    progress, quality = torch.tensor(members, dtype=torch.float64).T
    advantages = group_advantages(progress, quality, k)
    assert advantages.isfinite().all()
    assert advantages.sum().item() == pytest.approx(0, abs=1e-9)
    # The metric's scale does not matter
    torch.testing.assert_close(group_advantages(progress, quality.sinh() * 5 - 2, k), advantages)
    valid = [i for i, value in enumerate(quality) if not value.isnan()]
    failed = [i for i, value in enumerate(quality) if value.isnan()]
    assert all(advantages[i] > advantages[j] for i in valid for j in failed)
    for i in valid:
        for j in valid:
            assert advantages[i] == advantages[j] if quality[i] == quality[j] else True
            assert advantages[i] >= advantages[j] if quality[i] > quality[j] else True
            assert k is not None or quality[i] <= quality[j] or advantages[i] > advantages[j]


@pytest.mark.parametrize("k", [None, 2, 8])
@pytest.mark.parametrize("quality", [NAN, 1 / 3])
def test_groups_all_alike_are_exactly_zero(quality, k):
    progress = torch.full((11,), -10 + 0.1 * 3)
    assert not group_advantages(progress, torch.full((11,), quality), k).any()


def failed(*milestones):
    """The advantages of a group that fails altogether and reaches so many milestones."""
    progress = -10 + 0.1 * torch.tensor(milestones, dtype=torch.float64)
    return group_advantages(progress, torch.full_like(progress, NAN))


@pytest.mark.parametrize("size", [4, 64])
def test_a_milestone_is_worth_little_however_rare(size):
    """Beside a valid program, a milestone is a tenth of a point of three."""
    assert failed(1, *[0] * (size - 1))[0] < 0.1 / VALID_STEP
    mixed = torch.full((size,), -10.0)
    mixed[0] = -7.0
    lone_valid = group_advantages(mixed, torch.tensor([0.5] + [NAN] * (size - 1)))[0]
    assert failed(7, *[0] * (size - 1))[0] < min(lone_valid, 0.7 / VALID_STEP)
