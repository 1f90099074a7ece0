"""The advantages of a group, under the address that users import them from."""

from trl_mle.trainer.gradient.advantages import best_of_k_gains, group_advantages


__all__ = ["best_of_k_gains", "group_advantages"]
