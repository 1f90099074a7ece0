"""docs/metrics.md has every metric that the code logs, and no others."""

import ast
import re
from pathlib import Path

from support import pool_runs

from trl_mle.execution import Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.instrumentation.lm_instrumenter import REASONS


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
LOGGED = [
    name
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`([^`]*)`", line.split("|")[1])
]
# Functions that gather metrics, or pass them to TRL
GATHERS = re.compile(r"metrics$|^take_seconds$|^on_step_end$")
# These read metrics, and do not log them
READERS = ("report", "scripts", "model_card.py", "progress_callback.py")
# Prefix and name are both filled in
NOT_NAMES = {"*/*", "*"}


def text_of(node: ast.expr) -> str | None:
    """A string of the source, with `*` for each part that is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
    return None


def names_in(path: Path) -> set[str]:
    """The names of metrics that a file spells out: keys of gathered dictionaries, and names passed to TRL."""
    found: set[str | None] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and GATHERS.search(function.name):
            for node in ast.walk(function):
                if isinstance(node, ast.Dict):
                    found |= {text_of(key) for key in node.keys if key is not None}
                elif isinstance(node, ast.DictComp):
                    found.add(text_of(node.key))
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                    found.add(text_of(node.targets[0].slice))
        elif isinstance(function, ast.Call) and ast.unparse(function.func) == "log_metric":
            found.add(text_of(function.args[0]))
        elif isinstance(function, ast.Subscript) and "_metrics[" in ast.unparse(function.value):
            found.add(text_of(function.slice))
    return {name for name in found if name} - NOT_NAMES


def as_pattern(name: str) -> re.Pattern[str]:
    """Matches one part of a name for each `<…>` on the page, and for each part that the code fills in."""
    return re.compile(
        "".join(
            "[^/]+" if part in ("*", "…") or part[0] == "<" else re.escape(part)
            for part in re.split(r"(<[^>]*>|\*|…)", name)
            if part
        )
    )


def test_every_metric_that_the_code_spells_out_is_on_the_page():
    spelled = {
        name: path.relative_to(ROOT)
        for path in sorted((ROOT / "trl_mle").rglob("*.py"))
        if not set(READERS) & set(path.parts)
        for name in names_in(path)
    }
    assert len(spelled) > 40, "names_in does not find the metrics of the code"
    on_page = [re.sub(r"<[^>]*>", "*", name) for name in LOGGED]

    def is_there(name: str) -> bool:
        pattern = as_pattern(name)
        return any(
            pattern.fullmatch(other) or any(pattern.fullmatch(other.removeprefix(p)) for p in prefixes(other))
            for other in on_page
        )

    missing = [f"{name} ({path})" for name, path in spelled.items() if not is_there(name)]
    assert not missing, f"docs/metrics.md lacks {', '.join(missing)}"


def prefixes(name: str) -> list[str]:
    """`mle/`, `mle/async/`, …"""
    parts = name.split("/")
    return ["/".join(parts[:i]) + "/" for i in range(1, len(parts))]


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
    assert not missing, f"docs/metrics.md lacks {', '.join(sorted(missing))}"


def test_the_page_names_nothing_that_is_not_in_the_code():
    spelled = {name for path in (ROOT / "trl_mle").rglob("*.py") for name in names_in(path)}
    patterns = [as_pattern(name) for name in spelled if name[0] != "*"]  # `*_rate` would match any rate
    # From other dictionaries: `Sampler.take_seconds`, and the ways of an instrumenter
    handed_on = re.compile(r"mle/async/(generation_s|generation_wait_s|sync_s)|mle/instrumenter/(lm|ast|none)_rate")
    stale = [
        name
        for name in LOGGED
        if not handed_on.fullmatch(name)
        and not any(
            pattern.fullmatch(re.sub(r"<[^>]*>", "x", name).removeprefix(prefix))
            for pattern in patterns
            for prefix in ("", *prefixes(re.sub(r"<[^>]*>", "x", name)))
        )
    ]
    assert not stale, f"docs/metrics.md has {', '.join(stale)}, which nothing logs"
