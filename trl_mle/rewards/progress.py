"""What a terminal shows while programs run."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ProgramsProgress:
    """The progress line of a batch of programs: how many are done, valid so far, and how long the slowest has run."""

    def __init__(self, total: int, show: bool):
        console = Console(stderr=True)
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("programs"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not show or not console.is_terminal,
        )
        self.task = self.bar.add_task("programs", total=total, note="")

    def __enter__(self) -> "ProgramsProgress":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, completed: int, note: str) -> None:
        self.bar.update(self.task, completed=completed, note=note)
