"""Output of the commands, for people and for machines."""

import json
from typing import Any

from rich.table import Table


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def metric_name(name: str, higher_is_better: bool) -> str:
    return f"{name.replace('_', ' ')} {'↑' if higher_is_better else '↓'}"


def facts_table() -> Table:
    """A table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table
