import ast
import contextlib
import hashlib
import random
from pathlib import Path

import pytest

from trl_mle.competitions import load_competition
from trl_mle.competitions.mirrors import MIRRORS
from trl_mle.prompts import extract_code
from trl_mle.starter.grammar import Sketcher
from trl_mle.starter.tasks import LOCAL_TASKS, MIRROR_TASKS, TASKS


ROOT = Path(__file__).parents[2]

# Weak models are part of the grammar, and so is what scikit-learn thinks of them.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRL_MLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def sketches(competition, n, seed=0, **kwargs):
    sketcher = Sketcher(competition, random.Random(seed), **kwargs)
    return [sketcher.sketch() for _ in range(n)]


def parses(program):
    try:
        ast.parse(program)
    except SyntaxError:
        return False
    return True


def score(program, comp, folder):
    """Run a program in this process (it is our own) and grade what it submits; None if it fails."""
    folder.mkdir()
    (folder / "input").symlink_to(comp.public_dir)
    with contextlib.chdir(folder), contextlib.suppress(Exception):
        exec(compile(program, "solution.py", "exec"), {})
    submission = folder / "submission.csv"
    return comp.grade(submission).value if submission.exists() else None


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("competition", TASKS)
def test_same_seed_same_programs(competition):
    assert sketches(competition, 20) == sketches(competition, 20)
    assert sketches(competition, 20) != sketches(competition, 20, seed=1)


@pytest.mark.parametrize("competition", TASKS)
def test_programs_differ(competition):
    assert len(set(sketches(competition, 500))) >= 0.95 * 500


def test_a_completion_is_a_plan_of_one_line_and_a_program():
    completions = sketches("digits", 500)
    programs = [extract_code(completion) for completion in completions]
    assert all(completion.startswith("Plan: ") for completion in completions)
    assert all(completion.splitlines()[1:2] in ([], ["```python"]) for completion in completions)
    assert 0 < programs.count(None) < 20


@pytest.mark.parametrize("competition", TASKS)
def test_most_programs_parse_but_not_all(competition):
    programs = [program for program in map(extract_code, sketches(competition, 500)) if program]
    assert 0.80 < sum(map(parses, programs)) / len(programs) < 0.97


@pytest.mark.parametrize("competition", LOCAL_TASKS)
def test_without_slips_every_program_is_valid(competition, tmp_path):
    comp = load_competition(competition)
    for i, completion in enumerate(sketches(competition, 6, seed=1, slip_rate=0)):
        assert score(extract_code(completion), comp, tmp_path / str(i)) is not None, completion


@pytest.mark.parametrize("competition", MIRROR_TASKS)
def test_without_slips_every_program_for_a_mirror_is_valid(competition, tmp_path):
    """On fewer rows than usual. Four programs with different features; slow models are left out."""
    comp = load_competition(f"mirror:{competition}?rows=240")
    programs = map(extract_code, sketches(comp.id, 16, seed=1, slip_rate=0))
    quick = [program for program in programs if "ensemble" not in program and "svm" not in program][:4]
    assert len(quick) == 4
    for i, program in enumerate(quick):
        assert score(program, comp, tmp_path / str(i)) is not None, program


def test_every_mirror_has_a_task_whose_features_are_all_used():
    assert set(MIRROR_TASKS) == set(MIRRORS)
    for competition, task in TASKS.items():
        words = {features.words for features in task.features}
        plans = [completion.partition("\n")[0] for completion in sketches(competition, 200, slip_rate=0)]
        assert len(words) == 1 or all(any(f"on {word}" in plan for plan in plans) for word in words), competition


@pytest.mark.parametrize("competition", LOCAL_TASKS)
def test_an_improvement_changes_what_is_fitted_and_nothing_else(competition):
    sketcher = Sketcher(competition, random.Random(0), slip_rate=0)
    changeable = ("import ", "from ", "scaler = ", "X = scaler", "X_test = scaler", "model = ")
    for _ in range(200):
        before, after = (extract_code(text).splitlines() for text in sketcher.improve())
        assert before != after
        assert [line for line in before if not line.startswith(changeable)] == [
            line for line in after if not line.startswith(changeable)
        ]


def test_an_improvement_makes_mistakes_but_what_it_improves_does_not(tmp_path):
    comp = load_competition("digits")
    sketcher = Sketcher("digits", random.Random(0))
    pairs = [[extract_code(text) for text in sketcher.improve()] for _ in range(12)]
    assert all(score(before, comp, tmp_path / f"{i}") is not None for i, (before, _) in enumerate(pairs[:4]))
    found = [score(after, comp, tmp_path / f"after-{i}") for i, (_, after) in enumerate(pairs) if after]
    assert 0 < found.count(None) < len(found)


def test_the_corpus_of_the_quickstart_is_what_its_figures_were_measured_with():
    corpus = "\0".join(sketches("digits", 500)).encode()
    assert hashlib.sha256(corpus).hexdigest() == "116aae59bc4f9075afbf4f3d0a4d6aafc16a47bd08f1943ec189611d41c124f1"


def test_slips_make_programs_fail(tmp_path):
    comp = load_competition("digits")
    programs = [extract_code(completion) for completion in sketches("digits", 12, seed=1)]
    scores = [score(program, comp, tmp_path / str(i)) for i, program in enumerate(programs) if program]
    assert 0 < scores.count(None) < len(scores)


def test_nothing_else_imports_the_grammar():
    study = ROOT / "benchmarks" / "objectives_study.py"  # of its programs
    for path in [*ROOT.glob("trl_mle/**/*.py"), *ROOT.glob("recipes/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]:
        if path != study and path.parent != ROOT / "trl_mle" / "starter":
            assert not [name for name in imported_modules(path) if "starter.grammar" in name], path
