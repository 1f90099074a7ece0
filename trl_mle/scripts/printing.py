"""Output of the commands, for people and for machines."""

import json
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))  # in ASCII, which no terminal acts on


def facts_table() -> Table:
    """A table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def figures_table(*names: str, left: int = 1, title: str | None = None) -> Table:
    """A table of figures, below names of which the first `left` begin on the left."""
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, name in enumerate(names):
        table.add_column(name, overflow="fold", justify="left" if i < left else "right")
    return table
