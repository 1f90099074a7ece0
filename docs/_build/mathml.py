"""Formulas as MathML, which browsers draw themselves: the site loads no script for them."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert


FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return FORMULA.sub(lambda m: convert(unescape(m[2]), display="block" if m[1] == "div" else "inline"), html)
