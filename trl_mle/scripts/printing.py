"""Output of the commands, for people and for machines."""

from typing import Any

from rich.table import Table

from trl_mle.showing import for_json


def print_json(value: Any) -> None:
    print(for_json(value))


def facts_table() -> Table:
    """A table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table
