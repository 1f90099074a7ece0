"""State shared by the trainer's hooks within a batch."""

import time
from dataclasses import dataclass, field

import torch

from trl_mle.trainer.judged import Judged
from trl_mle.trainer.rollouts.ledger import Rollout


@dataclass
class Step:
    """State that the trainer's hooks share while TRL generates and scores one batch."""

    # Rollouts of this process, sampled before, that take the place of fresh samples
    replayed: list[Rollout] | None = None
    rewarded_at: float | None = None  # when a reward function last logged a column, by `time.monotonic()`
    judged: list[Judged] = field(default_factory=list)  # this process's completions
    advantages: torch.Tensor | None = None  # of all processes, unweighted, if they replace TRL's
    logps_taken: bool = False  # whether the replayed rollouts' log-probabilities are in place

    def waited_s(self) -> float | None:
        """Seconds since rewards were done; `None` if no reward function logged anything."""
        return None if self.rewarded_at is None else time.monotonic() - self.rewarded_at

    def weigh(self, advantages: torch.Tensor) -> torch.Tensor:
        """Advantages, one for each completion or token, times the duration weights."""
        weights = advantages.new_tensor([item.weight for item in self.judged])
        return advantages * (weights if advantages.dim() == 1 else weights.unsqueeze(1))

    def own_advantages(self, local: slice, stock: torch.Tensor) -> torch.Tensor:
        """The advantages that replace TRL's (`stock`), for this process's completions."""
        assert self.advantages is not None
        if stock.dim() > 1:
            raise ValueError(
                "a trainer with an advantage per token needs objective='reward': the others have one advantage per "
                "completion"
            )
        return self.advantages[local].to(stock)

    def paid(self, advantages: torch.Tensor, weighted: torch.Tensor, mask: torch.Tensor) -> list[tuple]:
        """For each completion: unweighted and weighted advantage (means over tokens, if per token), weight and Δt. The
        mask has 1 for the tokens that are trained on."""
        means = [
            values if values.dim() == 1 else (values * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            for values in (advantages, weighted)
        ]
        return [
            (plain, paid, item.weight, item.evaluation.duration_s)
            for plain, paid, item in zip(*(mean.tolist() for mean in means), self.judged, strict=True)
        ]

    def take_stored_logps(self, width: int) -> torch.Tensor | None:
        """Returns, once, the log-probabilities that the replayed rollouts had when they were sampled, padded to
        `width` tokens; `None` if there are none."""
        if self.logps_taken or self.replayed is None or self.replayed[0].policy_logps is None:
            return None
        self.logps_taken = True
        rows = [torch.tensor(rollout.policy_logps) for rollout in self.replayed]
        return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])


def waiting_metrics(waited: list[float | None]) -> dict[str, float]:
    """Seconds that each process waited for the slowest: the cost of uneven programs. Empty for a single process."""
    known = [seconds for seconds in waited if seconds is not None]
    if not known or len(waited) == 1:
        return {}
    return {"process_wait_s/mean": sum(known) / len(known), "process_wait_s/max": max(known)}
