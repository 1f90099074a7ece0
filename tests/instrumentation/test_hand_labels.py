"""The rule-based instrumenter against labels set by hand, and the judge itself."""

import sys
from pathlib import Path

import pytest

from trl_mle.instrumentation import MILESTONES, AstInstrumenter, InstrumentedProgram


sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from hand_labels import FALSE, LATE, RIGHT, judge, load_answers, load_labels, reported, verdicts


NONCE = "5e1f0c9a7b3d2468"


def test_the_rules_agree_with_the_labels():
    found = []
    for source, labels in load_labels().values():
        found += judge(AstInstrumenter().instrument(source), labels).values()
    assert len(found) == 546
    assert found.count(FALSE) <= 2
    assert found.count(RIGHT) >= 466  # of 488 that programs reach


def test_the_rules_report_what_programs_of_a_pretrained_model_reach():
    """All but what the statement that fails has done: no print can follow it."""
    answers, found = load_answers(), []
    for answer in answers:
        program = AstInstrumenter().instrument(answer.source)
        assert "imports" in program.milestones
        found += verdicts(answer, program).values()
    assert len(answers) == 200
    assert (len(found), found.count("lost")) == (7 * 108, 2)
    assert found.count("right") >= len(found) - 2


def test_a_milestone_is_reported_where_the_statement_before_its_print_completes():
    program = AstInstrumenter().instrument("import os\nimport pandas\nx = pandas.read_csv('train.csv')\ny = 1\n")
    assert reported(program, frozenset()) == reported(program, frozenset({1})) == set()
    assert reported(program, frozenset({1, 2})) == {"imports"}
    assert reported(program, frozenset({1, 2, 3})) == {"imports", "train_data"}


def place(source, milestone, ends):
    """The verdict on a print in the place of `@`."""
    before, _, after = source.partition("@")
    indentation = before.rpartition("\n")[2]
    text = f'{before}print("{NONCE} milestone: {milestone}", flush=True)\n{after.removeprefix(chr(10))}'
    original = before.removesuffix(indentation) + after.removeprefix("\n")
    program = InstrumentedProgram(source=text, original=original, milestones=(milestone,), nonce=NONCE)
    return judge(program, {name: ends if name == milestone else [] for name in MILESTONES})[milestone]


@pytest.mark.parametrize(
    ("source", "ends", "verdict"),
    [
        ("a = 1\n@\nb = 2\n", [1], RIGHT),
        ("a = 1\nb = 2\n@\n", [1], LATE),
        # Inside a statement that ends on the labelled line
        ("if x:\n    a = 1\n    @\nb = 2\n", [2], RIGHT),
        ("if x:\n    exit()\n    @\n", [2], FALSE),
        ("for x in y:\n    a = 1\n    b = 2\n    @\n", [2, 3], RIGHT),
        ("def g():\n    b = 1\ndef f():\n    for x in y:\n        a = 1\n        @\nf()\ng()\n", [2, 5], FALSE),
        # After a listed place, or perhaps without reaching one
        ("a = 1\nif x:\n    b = 2\n    @\n", [1], LATE),
        ("if x:\n    a = 1\n    c = 3\nb = 2\n@\n", [2], FALSE),
        ("def f():\n    b = 2\n    @\nf()\na = 1\nf()\n", [4], FALSE),
        ("with open('submission.csv', 'w') as f:\n    f.write('')\n@\n", [2], RIGHT),
    ],
)
def test_judge(source, ends, verdict):
    assert place(source, "predictions", ends) == verdict
