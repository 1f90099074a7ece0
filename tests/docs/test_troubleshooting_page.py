"""docs/troubleshooting.md has every message that ends a command, as the code words it, and no others."""

import ast
import re
from pathlib import Path


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "trl_mle"
PAGE = ROOT / "docs/troubleshooting.md"
# Their messages go to a program's author, an agent or a caller from Python, or are caught and replaced by others
OTHERS = {
    "environments/environment.py", "environments/server.py",  # for agents and clients
    "execution/inside/kernel.py", "execution/slots.py",
    "instrumentation/placements.py", "instrumentation/verify.py",  # caught: the fallback instruments
    "prompts/extract.py",  # caught: the text is no program
}  # fmt: skip
CAUGHT = {
    "AttributeError",
    "HTTPError",
    "HalfAnswer",
    "IsADirectoryError",
    "ReportLost",
    "RuntimeError",
    "DatabaseError",
}

WITHIN = {"there are none"}  # part of another message


def text_of(node: ast.expr) -> str | None:
    """A message of the source, with `…` for each part that is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):  # the right side is added in some cases only
        return text_of(node.left)
    return None


def messages() -> dict[str, str]:
    """Every message that the package raises for a user, and every warning that it logs, with file and line."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name in OTHERS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not (isinstance(call, ast.Call) and call.args):
                continue
            kind = ast.unparse(call.func)
            is_said = (isinstance(node, ast.Raise) and kind.split(".")[-1] not in CAUGHT) or kind in (
                "logger.warning",
                "Problem",
            )
            text = text_of(call.args[0]) if is_said else None
            if text and text not in WITHIN and re.search(r"\w{3}", text):
                found[" ".join(re.sub(r"%[\w.]*\w", "…", text).split())] = f"{name}:{call.lineno}"
    return found


def on_page() -> set[str]:
    """The messages that the page lists: each is a line of code with a break after it."""
    found = re.findall(r"^(?:- |  )(`+)(.+)\1<br>$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {text.strip() for _, text in found}


def test_every_message_is_on_the_page():
    missing = {text: where for text, where in messages().items() if text not in on_page()}
    lines = "\n".join(f"- ``{text}``  ({where})" for text, where in missing.items())
    assert not missing, f"docs/troubleshooting.md lacks these messages, with cause and fix:\n{lines}"


def test_the_page_has_no_message_that_nothing_raises():
    stale = on_page() - messages().keys()
    assert not stale, "docs/troubleshooting.md has messages that nothing raises:\n" + "\n".join(sorted(stale))
