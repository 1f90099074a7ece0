"""The trainer's advantages for many groups at once, for studies that need millions; see objectives.py."""

from functools import cache
from math import comb, log
from typing import Any

import torch

from trl_mle.trainer.gradient import advantages
from trl_mle.trainer.gradient.objectives import Group, MaxAtK


HALF_VALID = 1.5  # the deviation of the progress of a group of which half is valid


def reward_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """TRL's advantages, for groups of shape `(groups, members)`."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def entropic_advantages(rewards: torch.Tensor, kl: float) -> torch.Tensor:
    """
    n·qᵢ − 1 for groups of n rewards, shape `(groups, members)`, where q ∝ exp(β r), and β ≥ 0 is such that the divergence of q from
    uniform is `kl` nats, as in TTT-Discover (https://huggingface.co/papers/2601.16175); uniform among the best where more of
    them are equal than that. Rewards may be scaled and shifted; 0 where all are equal.
    """
    gaps = rewards - rewards.amax(1, keepdim=True)
    spread = -gaps.amin(1, keepdim=True)
    gaps = gaps / torch.where(spread > 0, spread, 1.0)  # from -1 to 0, so that β is at least `kl`
    low, high = torch.full_like(spread, kl), torch.full_like(spread, 1e12)
    for _ in range(100):
        beta = (low * high).sqrt()
        q = (beta * gaps).softmax(1)
        divergence = (q * (len(q[0]) * q).clamp(min=1e-300).log()).sum(1, keepdim=True)
        low, high = torch.where(divergence < kl, beta, low), torch.where(divergence < kl, high, beta)
    return len(gaps[0]) * (high * gaps).softmax(1) - 1


class Entropic:
    """An objective of the trainer's, for groups of one prompt: `objective: objectives_advantages.Entropic`."""

    def __init__(self, args: Any):
        pass

    def advantages(self, group: Group) -> torch.Tensor:
        return entropic_advantages(group.rewards[None].double(), log(2))[0].to(group.rewards.dtype)


class BoundedMaxAtK(MaxAtK):
    """`max_at_k`, where progress counts the same in every group: the last failures of a group weigh no more than others."""

    def advantages(self, group: Group) -> torch.Tensor:
        of_quality = super().advantages(group) - advantages.standardized(group.progress, advantages.VALID_STEP)
        return (of_quality + advantages.standardized(group.progress, HALF_VALID)).to(group.progress)


def two_part_advantages(progress: torch.Tensor, quality: torch.Tensor, k: int | None, scale: float) -> torch.Tensor:
    """
    Same as [`~trl_mle.trainer.gradient.advantages.group_advantages`], in float64.

    Args:
        progress, quality (`torch.Tensor` of shape `(groups, members)`):
            As there, without NaN in `progress`.
        k (`int`, *optional*):
            k of `max_at_k`; `None` for `mean_rank`.
        scale (`float`):
            Scale of the quality part.
    """
    valid = ~quality.isnan()
    count = valid.sum(1, keepdim=True)
    below = (quality[:, :, None] > quality[:, None, :]).sum(2)
    equal = (quality[:, :, None] == quality[:, None, :]).sum(2)
    ranks = ((below + equal.double() / 2) / count.clamp(min=1)).masked_fill(~valid, 2.0)  # failures are sorted last
    if k is None:
        parts = scale * ranks
    else:
        ranks, order = ranks.sort(1)
        gaps = ranks.diff(dim=1) * _shares(quality.shape[1], k)[count.flatten()]
        gains = torch.zeros_like(ranks).scatter(1, order[:, 1:], gaps.cumsum(1))
        parts = scale * count * gains
    return _standardized(progress.double()) + _centred(parts.masked_fill(~valid, 0.0))


@cache
def _shares(members: int, k: int) -> torch.Tensor:
    """The share of the subsets in which a gap counts, by the number of valid members and of those below the gap."""
    shares = torch.zeros(members + 1, members - 1, dtype=torch.float64)
    for count in range(2, members + 1):
        for below in range(1, count):
            shares[count, below - 1] = comb(below, min(k, count) - 1) / comb(count, min(k, count))
    return shares


def _centred(values: torch.Tensor) -> torch.Tensor:
    alike = (values == values[:, :1]).all(1, keepdim=True)
    return (values - values.mean(1, keepdim=True)).masked_fill(alike, 0.0)


def _standardized(values: torch.Tensor) -> torch.Tensor:
    centred = _centred(values)
    alike = ~centred.any(1, keepdim=True)
    return centred / centred.std(1, keepdim=True).masked_fill(alike, 1.0).clamp(min=advantages.VALID_STEP)


def check() -> None:
    """Raises `AssertionError` if these are not the trainer's own advantages."""
    generator = torch.Generator().manual_seed(0)
    for members in (16, 64):
        quality = torch.randint(0, members, (50, members), generator=generator).double()
        failed = torch.rand(50, members, generator=generator) < torch.linspace(0, 1, 50)[:, None]  # from none to all
        quality[:10] = torch.rand(10, members, generator=generator, dtype=torch.float64)
        quality[failed] = torch.nan
        progress = torch.where(
            failed, -10 + 0.1 * torch.randint(0, 8, failed.shape, generator=generator), -7.0
        ).double()
        for k in (None, 2, 4, 8, 16, 32):
            theirs = advantages.group_advantages(progress.flatten(), quality.flatten(), members, k)
            ours = two_part_advantages(progress, quality, k, advantages.QUALITY_SCALE).flatten()
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
