"""Duration-aware gradient updates, section 4.1 of https://huggingface.co/papers/2509.01684. Derivations:
docs/objective.md."""

import torch


def duration_weights(
    durations: torch.Tensor,
    method: str = "linear",
    low: float | None = None,
    high: float | None = None,
    mean: float | None = None,
) -> torch.Tensor:
    r"""
    Weights of each action's policy-gradient term by the duration Δt of the action.

    If actions are trained on as they finish, an action of duration Δt is trained on at a rate ∝ 1/Δt, and fast, poor
    programs crowd out slow, better ones. https://huggingface.co/papers/2509.01684 (section "duration-aware gradient
    updates") corrects this by weighting with Δt itself,

    $$
    \nabla J = \mathbb{E}\Big[\sum_k \frac{\Delta t_k}{\overline{\Delta t}} \, \nabla \log \pi(a_k|s_k) \,
    \hat{A}(s_k, a_k)\Big]
    $$

    divided by the batch's mean, so that the step size does not depend on the unit or on how slow the batch was.

    Args:
        durations (`torch.Tensor` of shape `(B,)`):
            Δt of each action; NaN where it is unknown.
        method (`str`, *optional*, defaults to `"linear"`):
            `"linear"` weights by Δt / mean Δt, `"none"` by 1.
        low (`float`, *optional*), high (`float`, *optional*):
            Smallest and largest weight. Without `low`, a program that dies at once (Δt ≈ 0) has almost no penalty.
        mean (`float`, *optional*):
            Mean Δt in seconds over more than this batch. Defaults to the mean of `durations`.

    Returns:
        `torch.Tensor` of shape `(B,)`:
            The weights: 1 on average, unless a bound clips, 1 for unknown durations, and 1 if all durations are zero.
    """
    if method not in ("linear", "none"):
        raise ValueError(f"unknown duration weighting {method!r}: choose 'linear' or 'none'")
    divisor = durations.nanmean() if mean is None else durations.new_tensor(mean)  # NaN when no duration is known
    if method == "none" or not (divisor > 0 and divisor.isfinite()):
        return torch.ones_like(durations)
    weights = (durations / divisor).nan_to_num(nan=1.0)
    return weights if low is None and high is None else weights.clamp(low, high)
