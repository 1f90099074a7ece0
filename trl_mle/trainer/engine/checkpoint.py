"""What a checkpoint has beside TRL's files, and whether it was written to its end."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, is_peft_model
from torch.utils.data import Sampler
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint


class CannotResume(ValueError):
    """The run differs from the checkpoint's in what cannot change."""


class EpochSampler(Sampler[int]):
    """TRL's sampler, which draws an order whenever it is iterated; a resumed run first draws those of past epochs."""

    def __init__(self, sampler: Any, epoch: Callable[[], int]):
        self.sampler = sampler
        self.epoch = epoch
        self._drawn = 0

    def __iter__(self) -> Iterator[int]:
        while self._drawn < self.epoch():
            next(iter(self.sampler))
            self._drawn += 1
        self._drawn += 1
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


def resumed_from(resume_from_checkpoint: str | bool | None, output_dir: Path) -> Path | None:
    """The checkpoint that transformers will resume from."""
    checkpoint = get_last_checkpoint(str(output_dir)) if resume_from_checkpoint is True else resume_from_checkpoint
    return Path(str(checkpoint)) if checkpoint else None


def check_adapter(model: Any, checkpoint: Path) -> None:
    """Raises [`CannotResume`] if the checkpoint's adapter has another scale, or this run has no adapter."""
    path = checkpoint / "adapter_config.json"
    if not path.is_file():
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    now = model.peft_config["default"].to_dict() if is_peft_model(model) else {}
    for name in ("r", "lora_alpha", "use_rslora", "use_dora"):
        if before.get(name) != now.get(name):
            raise CannotResume(
                f"resume_from_checkpoint: {checkpoint} was trained with {name}={before.get(name)}, not {now.get(name)}"
            )


def save_states(saved: Mapping[str, Any], folder: Path) -> None:
    """Saves what has a `state_dict`, JSON-compatible, by the names of its files."""
    for name, item in saved.items():
        (folder / f"{name}.json").write_text(json.dumps(item.state_dict()), encoding="utf-8")


def load_states(saved: Mapping[str, Any], checkpoint: Path) -> None:
    """Restores the states of a checkpoint; one of TRL's, or of another kind of run, has not all of them."""
    states: dict[str, Any] = {}
    if PartialState().is_main_process:
        for name in (*saved, "rollouts"):
            path = checkpoint / f"{name}.json"
            if path.is_file():
                states[name] = json.loads(path.read_text(encoding="utf-8"))
    [states] = broadcast_object_list([states])  # other machines need not see the files
    if "rollouts" in states and "rollouts" not in saved and states["rollouts"]["in_flight"]:
        raise CannotResume("the checkpoint has rollouts that were not trained on yet: resume with async_rollouts")
    for name, item in saved.items():
        if name not in states:
            continue
        try:
            item.load_state_dict(states[name])
        except ValueError as error:
            raise CannotResume(str(error)) from error


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in an output folder, complete or not, the newest first."""
    numbers = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*")}
    return sorted(filter(lambda path: numbers[path].isdecimal(), numbers), key=lambda path: -int(numbers[path]))


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint; `None` if it is whole. `trainer_state.json` is written last."""
    try:
        TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    except (OSError, ValueError, TypeError):  # also JSON that is something else
        return "it was not written to its end"
    if not any(checkpoint.glob("rng_state*.pth")):
        return "it has only the model (save_only_model)"
    return None
