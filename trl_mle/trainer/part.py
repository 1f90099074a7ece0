"""The shape of what can be added to the trainer."""

from collections.abc import Sequence
from typing import Any

import torch

from trl_mle.trainer.judged import Judged, Row


# Other files of a checkpoint
TAKEN = ("adapter_config", "config", "files", "generation_config", "tokenizer", "tokenizer_config", "trainer_state")


class Part:
    """
    A part of [`MLEGRPOTrainer`]. It acts at the hooks that it overrides, in the order in which they stand here; by default, it
    does nothing.

    All processes call the hooks together and with the same completions, so a part is the same on all of them. Its state is in
    every checkpoint, as `<name>.json`.

    Example:

    ```python
    >>> class Patience(Part):
    ...     name = "patience"
    ...
    ...     def weights(self, completions):  # nothing is learned from programs that end at once
    ...         return torch.tensor([float((item.evaluation.duration_s or 0) > 1) for item in completions])

    >>> trainer.parts += (Patience(),)
    ```
    """

    name: str = ""

    def choose(self, rows: list[Row], first: int) -> list[Row]:
        """
        Chooses what a batch of completions is asked.

        Args:
            rows (`list[dict]`):
                The rows of this process, one per completion: those of the dataset, with the columns of `judged.SCRATCH`.
            first (`int`):
                Position of the first of them in the batch of all processes.

        Returns:
            `list[dict]`: As many rows.
        """
        return rows

    def weights(self, completions: Sequence[Judged]) -> torch.Tensor | None:
        """Factors of the advantages, of shape `(B,)`, for the completions of all processes; `None` leaves them as they are."""
        return None

    def advantages(self, completions: Sequence[Judged], rewards: torch.Tensor) -> torch.Tensor | None:
        """
        Advantages that replace those of the parts before it, and TRL's.

        Args:
            completions (`Sequence[Judged]`):
                Those of all processes; their weights multiply the advantages afterwards.
            rewards (`torch.Tensor` of shape `(B, F)`):
                Rewards of each reward function; NaN if it returned none.

        Returns:
            `torch.Tensor` of shape `(B,)`, *optional*: The advantages; `None` to leave them as they are.
        """
        return None

    def observe(self, completions: Sequence[Judged], step: int) -> None:
        """Takes the completions of all processes, and the training step, from 1."""

    def metrics(self) -> dict[str, float]:
        """What it logs about the batch, without the prefix `mle/`."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it. Empty if there is nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]."""


def check_names(parts: Sequence[Part]) -> None:
    """Raises `ValueError` if a part would not have a file of its own in a checkpoint."""
    names = [part.name for part in parts]
    for part in reversed(parts):  # a user's come last
        if not part.name.isidentifier() or part.name in TAKEN or names.count(part.name) > 1:
            raise ValueError(
                f"{type(part).__name__}.name is {part.name!r}: give each part a name of its own, which its file in checkpoints gets"
            )


def checked(part: Part, hook: str, found: torch.Tensor | None, count: int) -> torch.Tensor | None:
    """What a part's hook has returned; a user's may be wrong, and NaN would destroy the policy."""
    if found is None:
        return None
    values = torch.as_tensor(found)
    if values.shape != (count,) or not values.isfinite().all():
        raise ValueError(
            f"the part {part.name!r} must give each of {count} completions finite {hook}, not {values.tolist()}"
        )
    return values
