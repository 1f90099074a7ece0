import pytest

from trl_mle.instrumentation import MILESTONES, VerificationError
from trl_mle.instrumentation.placements import parse_quotes, parse_rewrite, possible


# Reading answers in quote mode

SHOWN = """\
import pandas as pd
from sklearn.svm import SVC
train = pd.read_csv("train.csv")
model = SVC(C=2)
model.fit(train, train.y)
model = SVC(C=3)
model.fit(train, train.y)
out["y"] = model.predict(test)
out.to_csv("submission.csv")
"""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('train_data: pd.read_csv("train.csv")\nmodel_built: SVC(C=2)', {"train_data": 3, "model_built": 4}),  # a part
        ("model_trained: model.fit(train, train.y)", {"model_trained": 7}),  # the last one
        ('- **predictions**: `model.predict(test)`\n"submission": out.to_csv(', {"predictions": 8, "submission": 9}),
        ('- train_data: train = pd.read_csv("train.csv"): reads the data\n- more', {"train_data": 3}),  # and says why
        ("`imports: import pandas as pd; from sklearn.svm import SVC;`", {"imports": 2}),
        ("imports:\n    import pandas as pd\n    from sklearn.svm import SVC", {"imports": 2}),
        ("<think>imports: import pandas as pd</think>train_data: train = pd.read", {"train_data": 3}),
        ("imports: from os import path\nmodel_built: model_built = SVC()", {}),  # not in the program
        ("", {}),
    ],
)
def test_parse_quotes(answer, expected):
    assert {milestone: line for line, milestone in parse_quotes(SHOWN, answer)} == expected


# Reading answers in rewrite mode

PROGRAM = """\
import os
x = [
    1]
for i in x:
    y = i
    z = i
print("done", z)
"""


def test_parse_rewrite():
    rewritten = """\
print("milestone: test_data")
import os
print('milestone: imports')

x = [1]  # on one line now
print("milestone: train_data", flush=True)
print("Milestone reached! milestone:  model_built")
for i in x:
    print("milestone: predictions")
    y = i
    print("milestone: model_trained")
    z = i
print("done", z)
print("milestone: submission")
"""
    # Prints before a block's first statement are left out: no statement in it has run
    expected = [(1, "imports"), (2, "train_data"), (2, "model_built"), (5, "model_trained"), (7, "submission")]
    assert sorted(parse_rewrite(PROGRAM, rewritten)) == sorted(expected)
    assert parse_rewrite(PROGRAM, PROGRAM) == []
    docstring = '"""Doc."""\nx = 1\n'
    assert parse_rewrite(docstring, f"print('milestone: imports')\n{docstring}") == []


def test_a_program_that_prints_milestones_itself_is_not_rewritten():
    source = 'x = 1\nprint("milestone: imports")\n'
    with pytest.raises(VerificationError, match="itself"):
        parse_rewrite(source, source)


@pytest.mark.parametrize(
    "rewritten",
    [
        PROGRAM + "import sys\n",
        PROGRAM + "print('milestone: nothing')\n",
        PROGRAM + "if x:\n    print('milestone: imports')\n",
        PROGRAM + "\0",
        "",
    ],
)
def test_other_programs_are_refused(rewritten):
    with pytest.raises(VerificationError):
        parse_rewrite(PROGRAM, rewritten)


# Impossible places

CHECKED = '''\
"""Docstring."""
import os
import sys

TEXT = """
several
lines"""


def f():
    return os.getcwd()
    x = 1


y = f()
if y == "/":
    sys.exit(1)
    z = 2
z = [
    y,
    f"""
{y}""",
]
import re
'''


@pytest.mark.parametrize(
    ("milestone", "allowed", "refused"),
    [
        ("imports", [3, 24], [2, 5]),  # not before the other imports, nor in a string
        ("train_data", [15], [3]),  # not before any work
        ("submission", [16, 19, 23], [7, 24]),  # nor behind an import
        ("predictions", [], [12, 18, 21]),  # nor after an exit, nor in a string
    ],
)
def test_possible_places(milestone, allowed, refused):
    for line in [*allowed, *refused]:
        assert possible(CHECKED, [(line, milestone)]) == [(line, milestone)] * (line in allowed)


def test_all_on_one_line_is_no_answer():
    places = [(19, milestone) for milestone in MILESTONES]
    assert possible(CHECKED, places[:3]) == []
    assert possible(CHECKED, places[:2]) == places[:2]  # `model = Ridge().fit(X, y)`
    assert possible(CHECKED, [*places[:6], (15, "submission")]) == [*places[:6], (15, "submission")]
