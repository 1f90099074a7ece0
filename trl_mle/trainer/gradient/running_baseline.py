"""The baseline for rollouts that are trained on individually, without their group."""

from typing import Any

import torch


DECAY = 0.9  # decay of a batch's share in the mean, per later batch with the prompt


class RunningBaseline:
    """
    Running mean and deviation of the rewards of each prompt over earlier batches, each decayed by 0.9 per later batch with
    the prompt. Every reward is weighted by its duration weight, like its gradient.

    A reward is compared with the mean of the batches before, which its action did not influence, and divided by the
    deviation that includes its batch: one of a few earlier rewards could be 0. A prompt's first batch is compared with its
    own mean. Derivation: studies/duration_bias.md in commit 2f34a2d.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}  # of w, w R and w R² for each prompt

    def advantages(
        self, prompts: list[str], rewards: torch.Tensor, weights: torch.Tensor, scale: bool = True
    ) -> torch.Tensor:
        """The advantages of a batch, which then counts for those after it: `R - b`, with `scale` divided by `s +
        1e-4`; 0 where the reward is NaN. `prompts` holds their names; all have length B."""
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
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums = {prompt: list(sums) for prompt, sums in state.items()}
