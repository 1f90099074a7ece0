"""Output of the commands, for people and for machines."""

import json
from typing import Any

from rich.table import Table


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))  # in ASCII, which no terminal acts on


def facts_table() -> Table:
    """A table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table
