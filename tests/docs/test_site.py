"""Builds the site, and opens it in a browser."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.browser import CHROMIUM, look_at


ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: make docs"),
]
PAGES = ["index", "objective", "metrics", "troubleshooting", "api/trainer"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone(site, tmp_path, page):
    width = 390
    found = look_at(site / f"{page}.html", tmp_path, width)
    assert found["width"] <= width
    assert all(natural > 0 and shown <= width for _, natural, shown in found["images"])
    assert page != "index" or len(found["images"]) == 2


def test_pages_load_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        loaded = re.findall(r"<(?:script|link|img|source|iframe)\b[^>]*(?:src|href)=\"?([^\" >]+)", page.read_text())
        assert loaded
        assert not [url for url in loaded if re.match(r"(https?:)?//", url)], page.name
