import ast
import hashlib
import random
import re

import pytest
from support.sketched import quick_programs, score

from trl_mle.competitions import load_competition
from trl_mle.competitions.mirrors import MIRRORS, PREFIX
from trl_mle.prompts import extract_code
from trl_mle.starter.grammar import TASKS, Sketcher


MIRROR_TASKS = {name.removeprefix(PREFIX): tasks for name, tasks in TASKS.items() if name.startswith(PREFIX)}

# The grammar includes weak models, and scikit-learn warns about these.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def sketches(competition, n, seed=0, **kwargs):
    sketcher = Sketcher(competition, random.Random(seed), **kwargs)
    return [sketcher.sketch() for _ in range(n)]


def parses(program):
    try:
        return bool(ast.parse(program))
    except SyntaxError:
        return False


@pytest.mark.parametrize("competition", TASKS)
def test_programs_differ_are_functions_of_the_seed_and_mostly_parse(competition):
    completions = sketches(competition, 500)
    assert completions[:20] == sketches(competition, 20) != sketches(competition, 20, seed=1)
    assert len(set(completions)) >= 0.95 * 500
    assert all(re.match(r"Plan: .*(\n```python\n|$)", completion) for completion in completions)
    programs = list(map(extract_code, completions))
    assert 0 < programs.count(None) < 20  # a plan alone
    programs = list(filter(None, programs))
    assert 0.80 < sum(map(parses, programs)) / len(programs) < 0.97


@pytest.mark.parametrize("competition", TASKS)
def test_without_slips_every_program_is_valid(competition, tmp_path):
    """Programs with different features, on fewer rows than usual and without slow models."""
    comp = load_competition(f"{competition}?rows=240" if competition.startswith(PREFIX) else competition)
    for i, program in enumerate(quick_programs(comp.id, 5)):
        assert score(program, comp, tmp_path / str(i)) is not None, program


@pytest.mark.slow
@pytest.mark.parametrize("competition", MIRROR_TASKS)
def test_every_part_of_the_features_makes_a_valid_program(competition, tmp_path):
    comp = load_competition(f"mirror:{competition}?rows=240")
    for number, task in enumerate(MIRROR_TASKS[competition]):
        for part in task.parts:
            # A smaller tree may predict a constant
            programs = quick_programs(comp.id, 3, (task, part), has="(max_depth=8)", seed=part.words)
            for i, program in enumerate(programs):
                folder = tmp_path / f"{number}-{part.words.replace(' ', '-')}-{i}"
                assert score(program, comp, folder) is not None, program


def test_every_mirror_has_tasks_whose_parts_are_all_used():
    assert set(MIRROR_TASKS) == set(MIRRORS)
    for competition, tasks in TASKS.items():
        plans = [plan.partition("\n")[0] for plan in sketches(competition, 1500, slip_rate=0)]
        used = {words for plan in plans for words in plan.removesuffix(".").partition(" on ")[2].split(", ")}
        assert {part.words for task in tasks for part in task.parts} <= used, competition


def test_the_corpus_of_the_quickstart_is_what_its_figures_were_measured_with():
    corpus = "\0".join(sketches("digits", 500)).encode()
    assert hashlib.sha256(corpus).hexdigest() == "62da3e5c67a52745e4b78c43c5cb6e774480fc68e40c308039ffe95852ac2304"
