"""Duration weights for other TRL trainers, see [`DurationWeighted`]."""

from typing import Any

import torch
from accelerate.utils import gather_object

from trl_mle.trainer.duration import duration_weights, weights_by_competition
from trl_mle.trainer.foreign import evaluations_from


class DurationWeighted:
    """
    Weights the advantages of a trainer that scores completions as [`~trl.GRPOTrainer`] does, such as
    [`~trl.RLOOTrainer`], by the Δt that a reward function logs (`log_extra("duration_s", [...])`). Everything else is
    unchanged: no pool, no asynchronous training, no other objective.

    If the dataset has a column `competition`, the mean of Δt is taken per competition.

    Example:

    ```python
    >>> class DurationWeightedRLOOTrainer(DurationWeighted, RLOOTrainer):
    ...     duration_weight_low, duration_weight_high = 0.5, 2.0
    ```

    Attributes:
        duration_weighting (`str`), duration_weight_low (`float`), duration_weight_high (`float`):
            See [`~trl_mle.trainer.duration_weights`].
    """

    duration_weighting = "linear"
    duration_weight_low: float | None = None
    duration_weight_high: float | None = None

    accelerator: Any
    model: Any
    _pending_extra_logs: Any
    _local_weights: torch.Tensor

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list, completions: list, completion_ids_list: list
    ) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # type: ignore[misc]
        evaluations = evaluations_from(self._pending_extra_logs, len(inputs))
        local = [(row.get("competition"), item.duration_s) for row, item in zip(inputs, evaluations, strict=True)]
        everyone = gather_object(local)
        durations = torch.tensor([torch.nan if value is None else float(value) for _, value in everyone])
        weights = weights_by_competition([competition for competition, _ in everyone], durations, self._weights)
        start = self.accelerator.process_index * len(inputs)
        self._local_weights = weights[start : start + len(inputs)]
        self._pending_extra_logs["duration_weight"].extend(self._local_weights.tolist())
        return rewards

    def _weights(self, competition: str | None, durations: torch.Tensor) -> torch.Tensor:
        return duration_weights(
            durations, self.duration_weighting, self.duration_weight_low, self.duration_weight_high
        )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        if self.model.training:
            output["advantages"] = output["advantages"] * self._local_weights.to(output["advantages"])
        return output
