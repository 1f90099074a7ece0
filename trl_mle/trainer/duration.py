"""The weights of durations, under the address that users import them from."""

from trl_mle.trainer.gradient.duration import duration_weights


__all__ = ["duration_weights"]
