"""Shows progress while programs run, on a terminal and in a file for other processes."""

import json
import time
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trl_mle.execution.options import OF_A_PROGRAM
from trl_mle.files import write_whole
from trl_mle.showing import PlainConsole


METRICS_FILE = "metrics.jsonl"  # in the output folder of a run, see MLEProgressCallback
ARGUMENTS_FILE = "arguments.json"  # beside a policy's weights: how it was asked and rewarded, by these arguments
ARGUMENTS_KEPT = (
    *("model_name_or_path", "model_revision", "chat_template_kwargs", "competitions", "data_dir", "holdout"),
    *("begin_program", "ideas", "max_prompt_length", "max_completion_length", "objective", "max_at_k"),
    *("fail_reward", "milestone_reward", *OF_A_PROGRAM),
)
RUNNING_FILE = "running.json"  # in the folder of the executions' record
WRITE_S = 1.0  # seconds between two writes


def keep_arguments(folder: Path, arguments: dict[str, Any]) -> None:
    """Writes those arguments of a policy's training to its folder that say how it was asked and rewarded."""
    kept = {name: arguments[name] for name in ARGUMENTS_KEPT if name in arguments}
    write_whole(folder / ARGUMENTS_FILE, (json.dumps(kept, indent=2) + "\n").encode())


def trained_with(name: str) -> dict[str, Any]:
    """Arguments of a policy's training, as far as they are known. Raises `ValueError` if they cannot be read."""
    folders = (Path(name), Path(name).parent) if name else ()  # a sharded checkpoint has them in its run's folder
    path = next((folder / ARGUMENTS_FILE for folder in folders if (folder / ARGUMENTS_FILE).is_file()), None)
    try:
        return {} if path is None else {**json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def how_to_ask(name: str, begin_program: bool | None, ideas: str | None) -> tuple[bool, str]:
    """`begin_program` and `ideas` for a policy; `None` stands for its training's, or else `True` and `"none"`."""
    trained: dict[str, Any] = {"begin_program": True, "ideas": "none"} | trained_with(name)
    begin = trained["begin_program"] if begin_program is None else begin_program
    return begin, trained["ideas"] if ideas is None else ideas


class ProgramsProgress:
    """The progress line of a batch of programs; `running.json` in the folder has the same information."""

    def __init__(self, total: int, show: bool, folder: Path | None = None):
        console = PlainConsole(stderr=True)
        columns = SpinnerColumn(), TextColumn("programs"), BarColumn(bar_width=20), MofNCompleteColumn()
        note, is_hidden = TextColumn("{task.fields[note]}", markup=False), not show or not console.is_terminal
        self.bar = Progress(*columns, note, TimeElapsedColumn(), console=console, transient=True, disable=is_hidden)
        self.task = self.bar.add_task("programs", total=total, note="")
        self._total = total
        self._path = folder / RUNNING_FILE if folder is not None else None
        self._written_at = -WRITE_S

    def __enter__(self) -> "ProgramsProgress":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def update(self, completed: int, note: str) -> None:
        self.bar.update(self.task, completed=completed, note=note)
        if self._path is None or time.monotonic() < self._written_at + WRITE_S:
            return
        self._written_at = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        progress = {"done": completed, "of": self._total, "note": note}
        write_whole(self._path, json.dumps(progress).encode())
