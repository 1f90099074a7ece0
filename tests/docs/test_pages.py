"""Pictures are as their script draws them, and the links of all pages lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PAGES = [path for part in ("*.md", ".github/**/*.md", "docs/**/*.md") for path in sorted(ROOT.glob(part))]


@pytest.mark.parametrize("script", ["docs/_build/learning.py", "docs/_build/pipeline.py"])
def test_the_pictures_are_what_the_script_draws(script):
    drawn = runpy.run_path(str(ROOT / script))["pictures"]()
    assert len(drawn) == 2
    assert {path: path.read_text(encoding="utf-8") for path in drawn} == drawn, f"run python {script}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)\s]+)\)|(?:src|srcset)=\"(?!https?:)([^\"]+)\"", text)
    for link in map("".join, links):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_every_package_is_in_the_reference():
    reference = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/api").glob("*.md"))
    packages = [path.parent.name for path in (ROOT / "trl_mle").glob("*/__init__.py") if "__all__" in path.read_text()]
    assert len(packages) > 10
    assert not [name for name in packages if f"::: trl_mle.{name}\n" not in reference]
