"""An objective on trial: the best of k alone (`objective: credit.Whole`, where this folder is on the path)."""

from typing import Any

import torch
from scipy.stats import rankdata

from trl_mle.trainer.advantages import VALID_STEP, best_of_k_gains, standardized
from trl_mle.trainer.gradient.objectives import Group


class Whole:
    """
    The expected best of k of the whole group, where a failure has the lowest rank: as `max_at_k`, without a part for valid programs. So
    what fails often, and is good where it does not, is not unlearnt. Progress counts in groups without a valid program alone.
    """

    def __init__(self, args: Any):
        pass

    def advantages(self, group: Group) -> torch.Tensor:
        valid = ~group.quality.isnan()
        if not valid.any():
            return standardized(group.progress, VALID_STEP)
        n = len(valid)
        ranks = torch.zeros(n, dtype=torch.float64)
        ranks[valid] = torch.from_numpy(rankdata(group.quality[valid])) / valid.sum()
        return standardized(best_of_k_gains(ranks, min(8, n // 2)))
