"""Shows text that a program, a model or a user's table wrote as the plain text that it is: one function per medium."""

import re
import sys
import unicodedata
from io import TextIOWrapper
from typing import Any

from rich.console import Console
from rich.text import Text


_NEWLINE = re.compile(r"\r\n|\r")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|~$&])")


def never_fail_to_print() -> None:
    """Makes standard output spell out what its encoding lacks, such as Δ in Latin-1, as standard error does anyway."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def for_terminal(text: str) -> str:
    """Text for a terminal or a log: line ends and tabs stay; other control characters, which could move the cursor or
    write to the clipboard, and invisible ones are spelled out."""
    return "".join(sign if sign in "\n\t" else _spelled(sign) for sign in _NEWLINE.sub("\n", text))


def terminal_line(text: str) -> str:
    """Text for one line of a terminal."""
    return for_terminal(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """One line, cut between words where possible."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    return f"{text[:width].rpartition(' ')[0] or text[:width]} …"


def _spelled(sign: str) -> str:
    shown = sign.isprintable() or unicodedata.category(sign) == "Zs"  # a space that does not break, for example
    return sign if shown else sign.encode("unicode_escape").decode()


def number(value: float | None, digits: int = 3) -> str:
    """A figure of a table; `-` if it is unknown. It has `digits` decimals, unless it is very small or very large."""
    if value is None:
        return "-"
    if abs(value) >= 10_000:
        return f"{value:.0f}"
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.{digits}f}"


class PlainConsole(Console):
    """A console of rich that shows strings as they are: without markup, emoji codes and control characters."""

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(for_terminal(text), **options)

    def on_broken_pipe(self) -> None:
        raise  # to main, where rich would end with 1: that is an answer, such as invalid


def for_markdown(text: str) -> str:
    """Text for one line of Markdown, such as a table's cell: no sign of it is markup or HTML."""
    return _MARKDOWN.sub(r"\\\1", terminal_line(text))


def markdown_code(text: str) -> str:
    """Text as code in one line of Markdown."""
    text = terminal_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def metric_in_words(name: str) -> str:
    """A metric's name in a sentence, without the module of one's own."""
    return re.sub(r".*\.(?=[^\d])", "", name).replace("_", " ")


def metric_name(name: str, higher_is_better: bool) -> str:
    """A metric for people, with an arrow in the better direction."""
    return f"{metric_in_words(name)} {'↑' if higher_is_better else '↓'}"


def in_words(seconds: float) -> str:
    """A duration with the precision of an estimate: `48 s`, `5 min`, `2 h 10 min`."""
    if seconds < 90:
        return f"{seconds:.{1 if seconds < 1 else 0}f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
