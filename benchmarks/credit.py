"""An objective on trial: credit for what is new (`objective: credit.Shared`, where this folder is on the path)."""

import torch

from trl_mle.trainer.gradient.objectives import Group, Ranked


class Shared(Ranked):
    """
    `max_at_k`, but copies share a positive advantage: completions of a group that have the same score, or are the same program. Negative
    advantages shrink by the share of the positive ones that is left, and by its root once half of the group is valid.
    """

    def advantages(self, group: Group) -> torch.Tensor:
        before = super().advantages(group).double()
        valid = ~group.quality.isnan()
        same = (group.quality[:, None] == group.quality) | (group.program[:, None] == group.program)
        copies = (same & valid[:, None] & valid).sum(1).clamp(min=1)
        rises = before > 0
        after = torch.where(valid & rises, before / copies, before)
        kept = after[rises].sum() / before[rises].sum() if rises.any() else before.new_tensor(1.0)
        power = 0.5 if valid.double().mean() >= 0.5 else 1.0
        return torch.where(before < 0, before * kept**power, after)
