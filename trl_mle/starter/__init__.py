"""A tiny policy, trained from scratch on generated programs, so that everything runs offline without a download."""

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from trl_mle.starter.build import StarterConfig, build_starter

__all__ = ["StarterConfig", "build_starter"]


def __getattr__(name: str) -> object:
    # What the grammar covers can be asked without torch
    if name in __all__:
        return getattr(import_module("trl_mle.starter.build"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
