"""docs/troubleshooting.md quotes messages that the code still has."""

import ast
import re
from pathlib import Path


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/troubleshooting.md"


def test_the_code_has_every_message_of_the_page():
    files = (ROOT / "trl_mle").rglob("*.py")
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = [
        " ".join(node.value.split())
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    # A message is a line of code with a break after it; `…` stands for a value
    messages = re.findall(r"^(?:- |  )(`+)(.+)\1<br>$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert messages
    code = "\n".join(texts)
    stale = [text for _, text in messages if not all(part.strip() in code for part in text.split("…"))]
    assert not stale, "docs/troubleshooting.md has messages that the code lacks:\n" + "\n".join(stale)
