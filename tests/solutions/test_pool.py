import json
import random
from collections import Counter
from pathlib import Path

import pytest

from trl_mle.competitions import Competition
from trl_mle.solutions.pool import Solution, SolutionPool


def solution(number, score, competition="a", **kwargs):
    return Solution(competition, f"x = {number}\n", f"out {number}", score, step=number, **kwargs)


def competition(name, higher_is_better):
    metric = "accuracy" if higher_is_better else "log_loss"
    return Competition(name, metric, Path("public"), Path("sample.csv"), Path("answers.csv"), ("target",))


COMPETITIONS = {name: competition(name, True) for name in ("a", "b")}


def make_pool(scores, size=64, higher_is_better=True):
    pool = SolutionPool(COMPETITIONS | {"a": competition("a", higher_is_better)}, size)
    pool.observe(solution(number, score) for number, score in enumerate(scores))
    return pool


def steps(pool):
    return [item.step for item in pool.ranked("a")]


def test_of_many_competitions_each_keeps_fewer():
    for count, sizes in ((32, (64, 1000)), (100, (20, 20)), (5000, (4, 4))):
        many = {str(i): competition(str(i), True) for i in range(count)}
        assert (SolutionPool(many).size, SolutionPool(many, 1000).size) == sizes


def test_comments_and_layout_make_no_other_program_but_whatever_else_differs_does():
    same = ["x = 1", "x = 1  # one\n", "\n\nx = (1)\n", "\ufeffx = 1"]
    assert len({Solution("a", source, "", 1.0, 0).id for source in same}) == 1
    others = ["x = 1", "x = '1'", "x = 1.0", "x = True", "y = 1", "x = 1; x = 1", "f(a, b)", "f(a)(b)", "[a, b]"]
    others += ["if a:\n b\n c", "if a:\n b\nc", "a < b < c", "(a < b) < c", "not Python", "x = 'Load'", "x = Load"]
    assert len({Solution("a", source, "", 1.0, 0).id for source in others}) == len(others)


def test_odd_programs_never_raise_and_count_once():
    odd = ["x = '\0'", "x = '\ud800'", "(" * 100_000 + ")" * 100_000, "x = " + "9" * 5000]
    odd.append("x = " + " + ".join(["1"] * 100_000))  # very deep
    pool = SolutionPool(COMPETITIONS)
    pool.observe(Solution("a", source, "", 0.5, step) for step in (0, 1) for source in odd)
    assert steps(pool) == [0] * len(odd)
    restored = make_pool([0.5])  # loading replaces what there was
    restored.load_state_dict(json.loads(json.dumps(pool.state_dict())))
    assert restored.ranked("a") == pool.ranked("a")


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_worst_leave_first(higher_is_better):
    scores = [random.Random(i).random() for i in range(200)]
    expected = sorted(range(200), key=lambda i: scores[i], reverse=higher_is_better)[:10]
    assert steps(make_pool(scores, 10, higher_is_better)) == expected
    assert steps(make_pool([0.5] * 6, 4, higher_is_better)) == [0, 1, 2, 3]  # of equal ones, the first stay


def test_frequencies_by_rank():
    pool = make_pool([0.0, 0.2, 0.4, 0.1, 0.3])
    assert steps(pool) == [2, 4, 1, 3, 0]
    rng, draws = random.Random(0), 20_000
    shown = Counter(pool.sample("a", rng).step for _ in range(draws))
    for i, step in enumerate(steps(pool)):
        p = 2 * (5 - i) / (5 * 6)
        assert abs(shown[step] / draws - p) <= 4 * (p * (1 - p) / draws) ** 0.5


def test_a_restored_pool_goes_on_like_the_first():
    """After a round trip through JSON it shows the same solutions, whatever it observes next."""
    rng = random.Random(1)
    found = [solution(rng.randrange(60), rng.choice([rng.random(), 0.5])) for _ in range(300)]
    first = SolutionPool(COMPETITIONS | {"a": competition("a", False)}, 20)
    first.observe(found[:150])
    second = SolutionPool(COMPETITIONS | {"a": competition("a", False)}, 20)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for item in found[150:]:
        assert second.state_dict() == first.state_dict()
        seed = rng.random()
        assert second.sample("a", random.Random(seed)) == first.sample("a", random.Random(seed))
        for pool in (first, second):
            pool.observe([item])
