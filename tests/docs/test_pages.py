"""Pictures are as their script draws them, links lead somewhere, and docs/evaluation.md has the metrics that a run logs."""

import re
import runpy
from pathlib import Path

import pytest
from support import pool_runs

from trl_mle import cli
from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.instrumentation.lm_instrumenter import REASONS


ROOT = Path(__file__).parents[2]
PAGES = [path for part in ("*.md", ".github/**/*.md", "docs/**/*.md") for path in sorted(ROOT.glob(part))]


@pytest.mark.parametrize("script", ["docs/_build/learning.py", "docs/_build/pipeline.py", "docs/_build/help.py"])
def test_the_pictures_are_what_the_script_draws(script):
    if script == "docs/_build/help.py" and cli.kept_help("train") is None:
        pytest.skip("the help was written for other versions of the libraries")
    drawn = runpy.run_path(str(ROOT / script))["pictures"]()
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


METRICS_PAGE = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8").partition("\n## Metrics\n")[2]
CELLS = re.findall(r"^\| (`[^|]*)\|", METRICS_PAGE, re.MULTILINE)
LOGGED = re.findall(r"`([^`]*)`", "".join(CELLS))


def as_pattern(name: str) -> re.Pattern[str]:
    """Matches one part of a name for each `<…>` on the page."""
    parts = re.split(r"(<[^>]*>|…)", name)
    return re.compile("".join("[^/]+" if part[:1] in ("<", "…") else re.escape(part) for part in parts))


def test_what_a_run_logs_is_on_the_page(program_model, tmp_path):
    """Asynchronous training with improve prompts and replayed programs logs most of the names at once."""
    batch = pool_runs.GROUPS * pool_runs.GROUP_SIZE
    options = {"max_steps": 3, "save_strategy": "no", "async_rollouts": True, "max_in_flight": 2 * batch}
    trainer = pool_runs.make_trainer(program_model, tmp_path, **options)
    trainer.train()
    logged = {name for entry in trainer.state.log_history for name in entry if name.startswith("mle/")}
    assert len(logged) > 60
    kinds = re.compile(r"^mle/(?:scratch|improve|debug|wine|digits|diabetes|breast-cancer)/(?!beats)")
    patterns = [as_pattern(name) for name in LOGGED]
    missing = {name for name in logged if not any(p.fullmatch(kinds.sub("mle/", name)) for p in patterns)}
    missing |= {f"mle/outcome/{outcome}_rate" for outcome in (*Outcome, "no_code")} - {*LOGGED}
    missing |= {word for word in (*MILESTONES, *REASONS) if f"`{word}`" not in METRICS_PAGE}
    assert not missing, f"docs/evaluation.md lacks {', '.join(sorted(missing))}"
