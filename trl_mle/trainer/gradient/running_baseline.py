"""The baseline for rollouts that are trained on individually, without their group."""

from typing import Any

import torch


DECAY = 0.9  # decay of a batch's share in the mean, per later batch with the prompt


class RunningBaseline:
    r"""
    Running mean and deviation of the rewards of each prompt over earlier batches.

    Every reward is weighted by its duration weight $w$, like its gradient: if the weights correct for fast programs
    being trained on more often, this is the mean over the policy. With the batches $t = 1, 2, …$ that have the prompt,

    $$
    b_T = \frac{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i R_i}{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i}, \qquad
    s_T^2 = \frac{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i R_i^2}{\sum_{t \le T} \gamma^{T-t} \sum_{i \in t} w_i} -
    b_T^2, \qquad \gamma = 0.9.
    $$

    A reward of batch $T$ is compared with $b_{T-1}$, which its action did not influence, and divided by $s_T$, which
    includes the batch, like the deviation of a group: a deviation of a few earlier rewards could be 0. A prompt's
    first batch has no earlier batch, and is compared with its own mean. docs/duration.md describes the remaining bias.
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
                Names of the prompts, of length B.
            rewards (`torch.Tensor` of shape `(B,)`):
                Rewards; NaN where there is none.
            weights (`torch.Tensor` of shape `(B,)`):
                Duration weights.
            scale (`bool`, *optional*, defaults to `True`):
                Whether to divide by the deviation.

        Returns:
            `torch.Tensor` of shape `(B,)`: `R - b`, or `(R - b) / (s + 1e-4)`; 0 if the reward is missing.
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
