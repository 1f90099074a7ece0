import ast
import difflib
import hashlib
import itertools
import math
import random
import statistics
from pathlib import Path

import pytest
from support.sketched import QUICK, quick_programs, score

from trl_mle.competitions import load_competition
from trl_mle.competitions.mirrors import MIRRORS, PREFIX
from trl_mle.prompts import extract_code
from trl_mle.starter.estimators import TRANSFORMS
from trl_mle.starter.grammar import TASKS, Sketcher


ROOT = Path(__file__).parents[2]
MIRROR_TASKS = {name.removeprefix(PREFIX): tasks for name, tasks in TASKS.items() if name.startswith(PREFIX)}
LOCAL_TASKS = [name for name in TASKS if not name.startswith(PREFIX)]

# The grammar includes weak models, and scikit-learn warns about these.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def sketches(competition, n, seed=0, **kwargs):
    sketcher = Sketcher(competition, random.Random(seed), **kwargs)
    return [sketcher.sketch() for _ in range(n)]


def parses(program):
    try:
        ast.parse(program)
    except SyntaxError:
        return False
    return True


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
    for i, program in enumerate(quick_programs(competition, 6)):
        assert score(program, comp, tmp_path / str(i)) is not None, program


@pytest.mark.parametrize("competition", MIRROR_TASKS)
def test_without_slips_every_program_for_a_mirror_is_valid(competition, tmp_path):
    """Four programs with different features, on fewer rows than usual and without slow models."""
    comp = load_competition(f"mirror:{competition}?rows=240")
    for i, program in enumerate(quick_programs(comp.id, 4)):
        assert score(program, comp, tmp_path / str(i)) is not None, program


@pytest.mark.slow
@pytest.mark.parametrize("competition", MIRROR_TASKS)
def test_every_part_of_the_features_makes_a_valid_program(competition, tmp_path):
    comp = load_competition(f"mirror:{competition}?rows=240")
    for number, task in enumerate(MIRROR_TASKS[competition]):
        for part in task.parts:
            kept = {"task": number, "parts": [part.words], "estimator": "a small tree", "partner": None}
            kept["settings of a small tree"] = {"max_depth": 8}  # a smaller one may predict a constant
            kept |= {"tuning": None, "check": None}  # these would need more rows of each class
            sketcher = Sketcher(comp.id, random.Random(part.words), slip_rate=0)
            for i in range(3):
                program = extract_code(sketcher.sketch(kept))
                folder = tmp_path / f"{number}-{part.words.replace(' ', '-')}-{i}"
                assert score(program, comp, folder) is not None, program


def test_every_mirror_has_tasks_whose_parts_are_all_used():
    assert set(MIRROR_TASKS) == set(MIRRORS)
    for competition, tasks in TASKS.items():
        sketcher = Sketcher(competition, random.Random(0), slip_rate=0)
        used = set()
        for _ in range(1500):
            sketcher.sketch()
            used |= {(sketcher.choices["task"], words) for words in sketcher.choices["parts"]}
        assert used == {(number, part.words) for number, task in enumerate(tasks) for part in task.parts}, competition


@pytest.mark.parametrize("competition", TASKS)
def test_the_world_is_large(competition):
    """At least a million compositions, not counting most of their choices."""
    sketcher = Sketcher(competition, random.Random(0), slip_rate=0)
    assert compositions(sketcher) >= 1e6


def compositions(sketcher):
    """The number of compositions of one or two parts of features with one or two models."""
    total = 0
    for task in sketcher.tasks:
        parts = [math.prod(map(len, part.settings.values())) for part in task.parts]
        features = sum(parts) + sum(a * b for a, b in itertools.combinations(parts, 2))
        models = sum(
            math.prod((len(values) + (number > 0)) for number, values in enumerate(model.settings.values()))
            for model in sketcher._models(task).values()
        )
        total += features * (models + models**2) * len(TRANSFORMS)
    return total


def settings_of_models(sketcher):
    choices, models = sketcher.choices, sketcher._models(sketcher.tasks[sketcher.choices["task"]])
    yield choices[f"settings of {choices['estimator']}"], models[choices["estimator"]]
    if partner := choices["partner"]:
        yield choices[f"settings of {partner}, the partner"], models[partner]


@pytest.mark.parametrize("competition", [*LOCAL_TASKS, "mirror:nomad2018-predict-transparent-conductors"])
def test_an_improvement_keeps_what_it_does_not_change(competition):
    sketcher = Sketcher(competition, random.Random(0), slip_rate=0)
    kept = []
    for _ in range(200):
        before, _, after = sketcher.improve()
        before, after = (extract_code(text).splitlines() for text in (before, after))
        assert before != after
        changed = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        kept.append(1 - sum(line.startswith("-") for line in changed) / len(before))
        for settings, model in settings_of_models(sketcher):
            assert settings.keys() <= model.settings.keys()
    assert min(kept) >= 0.3
    assert statistics.median(kept) >= 0.85


def test_an_improvement_makes_mistakes_but_what_it_improves_does_not(tmp_path):
    comp = load_competition("digits")
    sketcher = Sketcher("digits", random.Random(0))
    pairs = []
    while len(pairs) < 12:
        before, _, after = sketcher.improve()
        if sketcher.choices["estimator"] in QUICK and not sketcher.choices["partner"]:
            pairs.append((extract_code(before), extract_code(after)))
    assert all(score(before, comp, tmp_path / f"{i}") is not None for i, (before, _) in enumerate(pairs[:4]))
    found = [score(after, comp, tmp_path / f"after-{i}") for i, (_, after) in enumerate(pairs) if after]
    assert 0 < found.count(None) < len(found)


def test_the_corpus_of_the_quickstart_is_what_its_figures_were_measured_with():
    corpus = "\0".join(sketches("digits", 500)).encode()
    assert hashlib.sha256(corpus).hexdigest() == "62da3e5c67a52745e4b78c43c5cb6e774480fc68e40c308039ffe95852ac2304"


def test_slips_make_programs_fail(tmp_path):
    comp = load_competition("digits")
    sketcher = Sketcher("digits", random.Random(1))
    programs = [
        extract_code(sketcher.sketch({"estimator": "naive Bayes", "partner": None, "check": None})) for _ in range(12)
    ]
    scores = [score(program, comp, tmp_path / str(i)) for i, program in enumerate(programs) if program]
    assert 0 < scores.count(None) < len(scores)


def test_nothing_else_imports_the_grammar():
    rooms = ("trl_mle", "recipes", "benchmarks")
    for path in (path for room in rooms for path in ROOT.glob(f"{room}/**/*.py")):
        if path.parent != ROOT / "trl_mle" / "starter":
            assert not [name for name in imported_modules(path) if "starter.grammar" in name], path
