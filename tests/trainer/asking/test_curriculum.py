"""Which competitions a curriculum chooses, depending on the results of their programs."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_mle.trainer.asking.curriculum import FLOOR, Curriculum, differing_pairs


GROUP = 8


def rows(competition, scores, seconds=1.0, outcome="ok"):
    """Rows of completions; those without a score failed."""
    return [
        {
            "competition": competition,
            "outcome": outcome,
            "valid": score is not None,
            "score": score,
            "duration_s": seconds,
        }
        for score in scores
    ]


def after(*batches, names=("a", "b")):
    curriculum = Curriculum(names, GROUP, seed=0)
    for batch in batches:
        curriculum.observe(batch)
    return curriculum


MIXED = [None, 0.1, None, 0.3, None, 0.5, None, 0.7]
DISTINCT = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_without_observations_all_are_as_likely_and_promising():
    curriculum = Curriculum(["a", "b", "c", "d"], GROUP, seed=0)
    assert list(curriculum.probabilities().values()) == pytest.approx([0.25] * 4)
    assert {lesson.learnability for lesson in curriculum.lessons.values()} == {1.5}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (MIXED, [None] * GROUP),  # some succeed
        (MIXED, [0.5] * GROUP),  # some fail
        (DISTINCT, [0.5] * GROUP),  # their scores differ
        (DISTINCT, [None] * GROUP),
        (MIXED, DISTINCT),
        ([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4], [0.1] * 6 + [0.2] * 2),
    ],
)
def test_more_to_learn_is_more_likely(better, worse):
    found = after(rows("a", better) + rows("b", worse))
    probabilities = found.probabilities()
    assert probabilities["a"] > 0.5 > probabilities["b"] >= FLOOR / 2
    assert found.lessons["a"].learnability > found.lessons["b"].learnability


def test_of_equal_lessons_the_faster_is_more_likely():
    batches = [rows("a", MIXED, seconds=1.0) + rows("b", MIXED, seconds=3.0)] * 40
    assert (
        after(batches[0]).probabilities()["a"] < after(*batches).probabilities()["a"]
    )  # few durations are shrunk more
    share = (after(*batches).probabilities()["a"] - FLOOR / 2) / (1 - FLOOR)
    assert 0.7 < share < 0.75  # programs that take three times as long get a third of the groups


def test_instant_programs_divide_nothing_by_zero():
    assert after(rows("a", [None] * 4, seconds=None) + rows("b", [None] * 4, seconds=0.0)).probabilities() == {
        "a": 0.5,
        "b": 0.5,
    }


def test_a_competition_can_become_worth_it_again():
    """Older results count less."""
    hopeless = [rows("a", [None] * GROUP) + rows("b", MIXED)] * 30
    hopeful = [rows("a", MIXED) + rows("b", [0.5] * GROUP)] * 20
    assert after(*hopeless).probabilities()["a"] < 0.2
    assert after(*hopeless, *hopeful).probabilities()["a"] > 0.6


def test_what_was_forgotten_is_asked_for_again():
    """The policy has written valid programs for "c", and no longer does; for "d" it never has. Others go on."""
    names = ("a", "b", "c", "d")
    learnt = rows("a", MIXED) + rows("b", DISTINCT) + rows("d", [None] * GROUP)
    before = [learnt + rows("c", DISTINCT)] * 20
    failing = [learnt + rows("c", [None] * GROUP)]
    probabilities = after(*before, *failing * 20, names=names).probabilities()
    assert probabilities["c"] > 3 * probabilities["d"]
    assert probabilities["c"] > 0.5 * probabilities["b"]
    lost = after(*before, *failing * 300, names=names).probabilities()  # it was tried for long
    assert lost["c"] == pytest.approx(lost["d"], abs=0.01)
    unjudged = [learnt + rows("c", [None] * GROUP, seconds=None, outcome="infrastructure")]
    broken = after(*before, *unjudged * 40, names=names).probabilities()
    assert broken["c"] == pytest.approx(broken["d"], abs=0.01)


def test_a_competition_that_cannot_be_judged_does_not_stay_promising():
    batches = [rows("a", [None] * GROUP, seconds=None, outcome="infrastructure") + rows("b", MIXED)] * 5
    assert after(*batches).probabilities()["a"] < 0.3


def test_what_is_not_known_is_asked_for():
    with pytest.raises(ValueError, match=r"^curriculum='learnability' needs to know which completions are valid"):
        after([{"competition": "a", "outcome": "ok"}])


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6))
def test_groups_are_shared_out_as_likely_as_they_are(seed, groups, count):
    """Each competition comes as often as its probability says, rounded up or down."""
    rng = random.Random(seed)
    names = [str(i) for i in range(count)]
    curriculum = Curriculum(names, GROUP, seed)
    for name in names:
        curriculum.observe(rows(name, [rng.choice([None, 0.1, 0.2]) for _ in range(GROUP)], rng.random()))
    probabilities = curriculum.probabilities()
    assert sum(probabilities.values()) == pytest.approx(1)
    chosen = curriculum.choose(groups)
    assert len(chosen) == groups
    for name in names:
        assert abs(chosen.count(name) - groups * probabilities[name]) < 1 + 1e-9


def test_over_many_batches_every_place_has_each_competition():
    curriculum = after(rows("a", MIXED) + rows("b", [None] * GROUP))
    batches = [curriculum.choose(3) for _ in range(4000)]
    for place in range(3):
        share = sum(batch[place] == "a" for batch in batches) / len(batches)
        assert share == pytest.approx(curriculum.probabilities()["a"], abs=0.03)


def test_a_checkpoint_has_it_all():
    curriculum = after(rows("a", MIXED) + rows("b", DISTINCT, 2.0))
    curriculum.choose(5)
    state = json.loads(json.dumps(curriculum.state_dict()))
    resumed = Curriculum(["a", "b"], GROUP, seed=0)
    resumed.load_state_dict(state)
    assert [resumed.choose(5) for _ in range(4)] == [curriculum.choose(5) for _ in range(4)]

    other = Curriculum(["b", "c"], GROUP, seed=0)  # one competition has gone, and another is new
    other.load_state_dict(state)
    assert other.lessons["b"] == curriculum.lessons["b"]
    assert other.lessons["c"].learnability == 1.5


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=2, max_size=12))
def test_differing_pairs(scores):
    pairs = [(a, b) for i, a in enumerate(scores) for b in scores[:i]]
    assert differing_pairs(scores) == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))
