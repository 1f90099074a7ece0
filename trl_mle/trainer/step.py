"""State shared by the trainer's hooks within a batch, and functions that join several turns into a batch."""

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import torch

from trl_mle.trainer.judged import Judged
from trl_mle.trainer.rollouts.ledger import Rollout


@dataclass
class Step:
    """
    State that the trainer's hooks share while TRL generates and scores one batch.

    Args:
        replayed (`list[Rollout]`, *optional*):
            Rollouts of this process, sampled before, that take the place of fresh samples.
        skipped (`list[Judged]`, *optional*):
            Completions of all processes that were executed and are not trained on.
        rewarded_at (`float`, *optional*):
            Last time that a reward function logged a column, by `time.monotonic()`: finally, the time when rewards
            were done.
        judged (`list[Judged]` of length `B`):
            This process's completions.
        weights (`torch.Tensor` of shape `(B,)`):
            Their duration weights.
        advantages (`torch.Tensor`, *optional*):
            Unweighted advantages of the completions of all processes, if they replace TRL's.
        logps_taken (`bool`, *optional*, defaults to `False`):
            Whether the replayed rollouts' log-probabilities are in place.
    """

    replayed: list[Rollout] | None = None
    skipped: list[Judged] = field(default_factory=list)
    rewarded_at: float | None = None
    judged: list[Judged] = field(default_factory=list)
    weights: torch.Tensor = field(default_factory=lambda: torch.ones(0))
    advantages: torch.Tensor | None = None
    logps_taken: bool = False

    def waited_s(self) -> float | None:
        """Seconds since rewards were done; `None` if no reward function logged anything."""
        return None if self.rewarded_at is None else time.monotonic() - self.rewarded_at

    def weigh(self, advantages: torch.Tensor) -> torch.Tensor:
        """
        Advantages times the duration weights.

        Args:
            advantages (`torch.Tensor` of shape `(B,)` or `(B, T)`):
                One for each completion, or for each of its tokens.

        Returns:
            `torch.Tensor` of the same shape: The weighted advantages.
        """
        weights = self.weights.to(advantages)
        return advantages * (weights if advantages.dim() == 1 else weights.unsqueeze(1))

    def own_advantages(self, local: slice, stock: torch.Tensor) -> torch.Tensor:
        """
        The advantages that replace TRL's.

        Args:
            local (`slice`):
                Where this process's completions lie in those of all.
            stock (`torch.Tensor` of shape `(B,)`):
                TRL's.

        Returns:
            `torch.Tensor` of shape `(B,)`: The advantages to use.

        Raises:
            `ValueError`: There is an advantage for each token.
        """
        assert self.advantages is not None
        if stock.dim() > 1:
            raise ValueError(
                "a trainer with an advantage per token needs objective='reward' and async_unit='group': the other settings have one advantage per completion"
            )
        return self.advantages[local].to(stock)

    def paid(self, advantages: torch.Tensor, weighted: torch.Tensor, mask: torch.Tensor) -> list[tuple]:
        """
        For each completion: unweighted and weighted advantage (means over tokens, if per token), weight and Δt.

        Args:
            advantages (`torch.Tensor` of shape `(B,)` or `(B, T)`), weighted (`torch.Tensor` of the same shape):
                Before and after they were weighted.
            mask (`torch.Tensor` of shape `(B, T)`):
                1 for the tokens that are trained on.
        """
        means = [
            values if values.dim() == 1 else (values * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            for values in (advantages, weighted)
        ]
        durations = [item.evaluation.duration_s for item in self.judged]
        return list(zip(*(mean.tolist() for mean in means), self.weights.tolist(), durations, strict=True))

    def take_stored_logps(self, width: int) -> torch.Tensor | None:
        """
        Returns, once, the log-probabilities that the replayed rollouts had when they were sampled.

        Args:
            width (`int`):
                Tokens of the longest completion.

        Returns:
            `torch.Tensor` of shape `(B, width)`, *optional*: `None` if there are none, or if they were already taken.
        """
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


def resized(logs: Any, size: int) -> Any:
    """TRL's completions table, empty, with room for the rows of all turns."""
    return {
        name: deque(maxlen=size) if isinstance(rows, deque) else defaultdict(lambda: deque(maxlen=size))
        for name, rows in logs.items()
    }


def join_outputs(outputs: list[dict[str, Any]], pad_token_id: int) -> dict[str, Any]:
    """
    Joins the turns of a batch into one batch, with the rows of the first turn first.

    Args:
        outputs (`list[dict]`):
            TRL's outputs for each turn: tensors with a row for each completion, prompts padded on the left and
            completions on the right, and `num_items_in_batch`.
        pad_token_id (`int`):
            Token to pad with.

    Returns:
        `dict`: The same entries, with the rows of all turns.
    """
    if len(outputs) == 1:
        return outputs[0]
    joined: dict[str, Any] = {}
    for name, first in outputs[0].items():
        values = [output[name] for output in outputs]
        if name == "num_items_in_batch":
            joined[name] = sum(values[1:], start=first)
        elif first.dim() == 1:
            joined[name] = torch.cat(values)
        else:
            width = max(value.shape[1] for value in values)
            fill = pad_token_id if name.endswith("_ids") else 0
            left = name.startswith("prompt")
            joined[name] = torch.cat(
                [
                    torch.nn.functional.pad(
                        value, (width - value.shape[1], 0) if left else (0, width - value.shape[1]), value=fill
                    )
                    for value in values
                ]
            )
    return joined
