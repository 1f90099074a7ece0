"""Docstrings in TRL's format as Markdown, for mkdocstrings, which knows other formats only."""

import ast
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import griffe


PACKAGE = Path(__file__).parents[2] / "trl_mle"
SECTION = re.compile(r"^(Args|Parameters|Attributes|Returns|Raises|Yields):$")
REFERENCE = re.compile(r"\[`(~?)([\w.]+)`\]")


def public_names() -> dict[str, str]:
    """Where the name of each public class and function leads: what a package exports has a place in the reference."""
    names = {}
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names |= {name: f"trl_mle.{path.parent.name}.{name}" for name in ast.literal_eval(node.value)}
    return names


NAMES = public_names()


def linked(match: re.Match[str]) -> str:
    """A reference to something that the reference has is a link, any other is its name."""
    shown = match[2].rpartition(".")[2] if match[1] else match[2]
    first, *more = (match[2].rpartition(".")[2] if match[1] else match[2]).split(".")
    if first not in NAMES or (match[1] and not match[2].startswith("trl_mle.")):
        return f"`{shown}`"
    target = ".".join([NAMES[first], *more])
    return f'<autoref optional identifier="{target}"><code>{shown}</code></autoref>'


def items(name: str, block: str) -> list[str]:
    """The entries of a section, each with its text, as a list."""
    lines = [f"**{name}**", ""]
    for line in block.splitlines():
        if line.startswith("> "):
            lines += ["", f"*{line[2:]}*", ""]
        elif line and not line[0].isspace():
            head, _, text = line.rpartition(":") if line.endswith(":") else line.partition(": ")
            argument, bracket, kind = head.partition(" (")
            lines.append(f"- **{argument}**{bracket}{kind}: {text}" if bracket and name not in ("Returns", "Raises") else f"- {head}: {text}")
        else:
            lines.append(line)
    return lines


def to_markdown(text: str) -> str:
    """
    A docstring as Markdown.

    Args:
        text (`str`):
            The docstring, without its indentation.

    Returns:
        `str`: The same, its sections as lists and its references as links.
    """
    lines, result = text.splitlines(), []
    while lines:
        line = lines.pop(0)
        section = SECTION.match(line)
        if section:
            block = []
            while lines and (not lines[0].strip() or lines[0][0].isspace()):
                block.append(lines.pop(0))
            result += items(section[1], dedent("\n".join(block)).strip("\n")) + [""]
        elif line in ("Example:", "Examples:"):
            result.append(f"**{line[:-1]}**")
        elif line.strip() == "```python" and lines and lines[0].strip().startswith(">>>"):
            result.append(line.replace("python", "pycon"))
        else:
            result.append(line)
    return REFERENCE.sub(linked, "\n".join(result))


class TrlDocstrings(griffe.Extension):
    """Rewrites each docstring once it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
