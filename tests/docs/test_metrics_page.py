"""docs/evaluation.md has every metric that a run logs, and none that is not in the code."""

import re
from pathlib import Path

from support import pool_runs

from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.instrumentation.lm_instrumenter import REASONS


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8").partition("\n## Metrics\n")[2]
LOGGED = [
    name
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`([^`]*)`", line.split("|")[1])
]


def as_pattern(name: str) -> re.Pattern[str]:
    """Matches one part of a name for each `<…>` on the page."""
    parts = re.split(r"(<[^>]*>|…)", name)
    return re.compile("".join("[^/]+" if part[:1] in ("<", "…") else re.escape(part) for part in parts))


def test_names_that_are_filled_in_are_listed_one_by_one():
    for outcome in (*map(str, Outcome), "no_code"):
        assert f"mle/outcome/{outcome}_rate" in LOGGED
    for word in (*MILESTONES, *REASONS):
        assert f"`{word}`" in PAGE


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
    assert not missing, f"docs/evaluation.md lacks {', '.join(sorted(missing))}"
