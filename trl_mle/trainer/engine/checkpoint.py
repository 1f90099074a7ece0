"""What a checkpoint has beside TRL's files, and whether it is whole, so that a run does not resume from a truncated
one."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, is_peft_model
from torch.utils.data import Sampler
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint

from trl_mle.files import write_whole


FILES_FILE = "files.json"  # in a checkpoint: the size of each of its files, in bytes
# Entries of an adapter's configuration that do not say what it is: where it came from, and how it was saved
NOT_COMPARED = {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version", "revision"}


class Saved(Protocol):
    """What has a state in checkpoints, which JSON can hold; nothing is written for an empty one."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class CannotResume(ValueError):
    """The run differs from the checkpoint's in what cannot change, or would save one that no run could resume
    from exactly."""


class EpochSampler(Sampler[int]):
    """A sampler that draws an order whenever it is iterated, such as TRL's, in the order of the current epoch: a resumed
    run draws those of the epochs before it first, and they are left out."""

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
    """Raises [`CannotResume`] if the checkpoint has another adapter than this run. PEFT compares only the shapes of its weights,
    and would take them with another scale."""
    name = model.active_adapter if is_peft_model(model) else "default"
    path = checkpoint / ("" if name == "default" else name) / "adapter_config.json"
    differences = []
    if path.is_file() and is_peft_model(model):
        before, now = json.loads(path.read_text(encoding="utf-8")), model.peft_config[name].to_dict()
        differences = [
            f"{key}={was}, not {new}"
            for key in sorted(before.keys() & now.keys() - NOT_COMPARED)
            if (was := _in_order(before[key])) != (new := _in_order(now[key]))
        ]
    elif path.is_file():
        differences = ["an adapter, and this run has none"]
    elif is_peft_model(model) and (checkpoint / "config.json").is_file():  # FSDP's shards alone do not say
        differences = ["no adapter, and this run has one"]
    if differences:
        raise CannotResume(
            f"resume_from_checkpoint: {checkpoint} was trained with {', '.join(differences)}: resume it with the same, or begin a "
            "new run in another output_dir"
        )


def begin(checkpoint: Path, saved: Iterable[str]) -> None:
    """Removes what would make a checkpoint of the same name, of an earlier run, look whole while it is overwritten."""
    for name in (TRAINER_STATE_NAME, FILES_FILE, *(f"{name}.json" for name in saved)):
        (checkpoint / name).unlink(missing_ok=True)


def save_states(saved: Mapping[str, Saved], folder: Path) -> None:
    """Writes the states into a checkpoint."""
    for name, item in saved.items():
        if state := item.state_dict():
            (folder / f"{name}.json").write_text(json.dumps(state), encoding="utf-8")


def load_states(saved: Mapping[str, Saved], checkpoint: Path) -> None:
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
        except (KeyError, TypeError) as error:
            raise CannotResume(
                f"{name}.json in {checkpoint} is of another version of trl_mle, with which it can be resumed "
                f"({type(error).__name__}: {error})"
            ) from error
        except ValueError as error:
            raise CannotResume(str(error)) from error


def _in_order(value: Any) -> Any:
    """The names of modules, which are saved in any order."""
    return sorted(value, key=str) if isinstance(value, list | set) else value


def list_files(checkpoint: Path) -> None:
    """Writes `files.json`, once all processes have written their files."""
    sizes = {
        path.relative_to(checkpoint).as_posix(): path.stat().st_size
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and path.name != FILES_FILE
    }
    write_whole(checkpoint / FILES_FILE, json.dumps(sizes, indent=1).encode())


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in an output folder, complete or not, the newest first."""
    numbers = {path: path.name.partition("-")[2] for path in folder.glob("checkpoint-*")}
    return sorted(
        (path for path, number in numbers.items() if number.isdecimal()), key=lambda path: -int(numbers[path])
    )


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint: that it was saved without what a run resumes from, or the first file that is missing
    or has another size than when it was written; `None` if there is none. Without `files.json`, it is whole if
    `trainer_state.json`, which is written last, can be read."""
    try:
        TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    except (OSError, ValueError, TypeError):  # also JSON that is something else
        return "it was not written to its end"
    sizes: dict[str, int] = {}  # of another trainer, or its process was killed just before
    if (checkpoint / FILES_FILE).is_file():
        try:
            sizes = dict(json.loads((checkpoint / FILES_FILE).read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            return f"{FILES_FILE} cannot be read"
    for name, size in sizes.items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    if not any(checkpoint.glob("rng_state*.pth")):
        return "it has only the model (save_only_model)"
    return None
