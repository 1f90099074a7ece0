"""The baseline of rollouts that are trained on one by one, without their group."""

from typing import Any

import torch


DECAY = 0.9  # a batch's share in the mean falls by this with every later batch that has the prompt


class RunningBaseline:
    r"""
    Mean and deviation of the rewards of each prompt, over the batches before.

    Every reward counts with its duration weight $w$, as its gradient does: where the weights undo that fast programs are
    trained on more often, the mean is the one over the policy. With the batches $t = 1, 2, …$ that have the prompt,

    $$
    b_T = \frac{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i R_i}{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i}, \qquad
    s_T^2 = \frac{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i R_i^2}{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i} -
    b_T^2, \qquad \gamma = 0.9.
    $$

    A reward of batch $T$ is compared with $b_{T-1}$, which its action has not influenced, and divided by $s_T$, which
    knows the batch as the deviation of a group does: a deviation from a few rewards before could be 0. A prompt's first
    batch has none before it, and is compared with its own mean. What bias is left is in docs/duration.md.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}  # of w, w R and w R² for each prompt

    def advantages(
        self, prompts: list[str], rewards: torch.Tensor, weights: torch.Tensor, scale: bool = True
    ) -> torch.Tensor:
        """
        The advantages of a batch, which then counts for those after it.

        Args:
            prompts (`list[str]`):
                What tells equal prompts, of length B.
            rewards (`torch.Tensor` of shape `(B,)`):
                Rewards; NaN where there is none.
            weights (`torch.Tensor` of shape `(B,)`):
                Duration weights.
            scale (`bool`, *optional*, defaults to `True`):
                Whether to divide by the deviation.

        Returns:
            `torch.Tensor` of shape `(B,)`: `R - b`, or `(R - b) / (s + 1e-4)`; 0 where there is no reward.
        """
        advantages = torch.zeros_like(rewards)
        for prompt in sorted(set(prompts)):
            same = torch.tensor([name == prompt for name in prompts]) & ~rewards.isnan()
            if not same.any():
                continue
            reward, weight = rewards[same].double(), weights[same].double()
            batch = [weight.sum().item(), (weight * reward).sum().item(), (weight * reward**2).sum().item()]
            before = self._sums.get(prompt)
            after = [DECAY * old + new for old, new in zip(before or [0.0] * 3, batch, strict=True)]
            if after[0] == 0:
                continue  # all weights are zero
            self._sums[prompt] = after
            mean = before[1] / before[0] if before is not None else batch[1] / batch[0]
            deviation = max(0.0, after[2] / after[0] - (after[1] / after[0]) ** 2) ** 0.5
            advantages[same] = ((reward - mean) / (deviation + 1e-4 if scale else 1.0)).to(rewards)
        return advantages

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it."""
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what [`state_dict`] gave."""
        self._sums = {prompt: list(sums) for prompt, sums in state.items()}
