"""Whether a checkpoint is whole: a disk that filled up, or a copy that was cut off, must not be resumed from."""

import json
import os
from pathlib import Path

from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME


FILES_FILE = "files.json"  # in a checkpoint: the size of each of its files, in bytes


def list_files(checkpoint: Path) -> None:
    """Writes `files.json`, once all processes have written their files."""
    sizes = {
        path.relative_to(checkpoint).as_posix(): path.stat().st_size
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and path.name != FILES_FILE
    }
    whole = checkpoint / f"{FILES_FILE}.new"
    whole.write_text(json.dumps(sizes, indent=1), encoding="utf-8")
    os.replace(whole, checkpoint / FILES_FILE)


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in an output folder, complete or not, the newest first."""
    numbers = {path: path.name.partition("-")[2] for path in folder.glob("checkpoint-*")}
    return sorted(
        (path for path, number in numbers.items() if number.isdecimal()), key=lambda path: -int(numbers[path])
    )


def damage(checkpoint: Path) -> str | None:
    """
    What is wrong with a checkpoint.

    Args:
        checkpoint (`Path`):
            Its folder.

    Returns:
        `str`, *optional*:
            The first file that is missing or has another size than when it was written; `None` if there is none. A checkpoint
            without `files.json` is whole if its `trainer_state.json`, which is written last, can be read.
    """
    try:
        TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    except (OSError, ValueError, TypeError):  # also JSON that is something else
        return "it was not written to its end"
    if not (checkpoint / FILES_FILE).is_file():  # of an earlier version, or its process was killed just before
        return None
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
    return None
