"""A tiny policy, trained from scratch on generated programs, so that everything runs offline without a download."""

from trl_mle.starter.build import StarterConfig, build_starter


__all__ = ["StarterConfig", "build_starter"]
