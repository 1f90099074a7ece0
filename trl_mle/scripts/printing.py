"""Output of the commands, for people and for machines."""

import codecs
import json
import sys
from typing import Any

from rich.table import Table

from trl_mle.showing import for_json


def print_json(value: Any) -> None:
    is_utf8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"
    print(for_json(value) if is_utf8 else json.dumps(value, indent=2))  # JSON has no \xe9


def facts_table() -> Table:
    """A table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table
